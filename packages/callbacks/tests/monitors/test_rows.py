"""Lines and tables of statistics, and their continuation after a crash."""

import csv
import itertools
import json
import os
import types

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import Callback, CSVWriter, JSONWriter, LoopState
from towerpack_callbacks.monitors._monitors import StepRow


def resumed_at(log_dir, global_step):
    """A trainer with a run that continues after a step."""
    loop = LoopState(steps_per_epoch=3, global_step=global_step)
    return types.SimpleNamespace(graph=tf.Graph(), log_dir=log_dir, loop=loop)


def cut(path, last_step):
    """Makes a JSONWriter continue a file after a step, without new statistics."""
    writer = JSONWriter(path.name)
    writer.setup_graph(resumed_at(path.parent, last_step))
    writer._before_train()
    writer._after_train()


def as_lines(steps):
    return [json.dumps({"epoch_num": 1, "global_step": step}) + "\n" for step in steps]


@pytest.mark.parametrize("torn", ["", '{"epoch_num": 4, "glo', "\0\0\0", '{"global_step": 1}, {"glo'])
@pytest.mark.parametrize(("last_step", "kept"), [(9, 0), (10, 1), (20, 2), (25, 2), (30, 3), (99, 3)])
def test_cutting_keeps_the_lines_up_to_a_step(tmp_path, torn, last_step, kept):
    path = tmp_path / "stats.jsonl"
    lines = as_lines([10, 20, 30])
    path.write_text("".join(lines) + torn)
    cut(path, last_step)
    assert path.read_text() == "".join(lines[:kept])


def test_a_last_line_that_lacks_its_end_alone_is_kept(tmp_path):
    path = tmp_path / "stats.jsonl"
    path.write_text("".join(as_lines([10, 20])).removesuffix("\n"))
    cut(path, 20)
    assert path.read_text() == "".join(as_lines([10, 20]))


def test_cutting_an_empty_file(tmp_path):
    path = tmp_path / "stats.jsonl"
    path.touch()
    cut(path, 20)
    assert path.read_text() == ""


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.floats(allow_nan=False))))
def test_rows_hold_the_last_value_of_each_name_and_step(puts):
    puts = sorted(puts, key=lambda put: put[0])
    row, rows = StepRow(), []
    for step, name, value in puts:
        rows.append(row.add(name, value, 1, step))
        copy = StepRow()
        copy.load_state_dict(json.loads(json.dumps(row.state_dict())))
        row = copy
    rows = [finished for finished in [*rows, row.take()] if finished]
    expected = [
        {"epoch_num": 1, "global_step": step} | {name: value for _, name, value in group}
        for step, group in itertools.groupby(puts, key=lambda put: put[0])
    ]
    assert rows == expected
    assert row.take() is None


class Late(Callback):
    """Puts "early" each epoch, and from the third on "täte, \"x\"", too."""

    def _trigger(self):
        self.trainer.monitors.put_scalar("early", self.epoch_num / 3)
        if self.epoch_num >= 3:
            self.trainer.monitors.put_scalar('täte, "x"', float("nan") if self.epoch_num == 3 else -1e300)


def read_table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_column_that_comes_later_stands_on_the_right(line):
    line.run([Late()], monitors=[CSVWriter()], max_epoch=4)
    assert read_table(line.log_dir / "stats.csv") == [
        ["epoch_num", "global_step", "early", 'täte, "x"'],
        ["1", "3", repr(1 / 3), ""],
        ["2", "6", repr(2 / 3), ""],
        ["3", "9", "1.0", "nan"],
        ["4", "12", repr(4 / 3), "-1e+300"],
    ]
    assert sorted(p.name for p in line.log_dir.iterdir()) == ["stats.csv"]


@pytest.mark.parametrize("torn", ["", "3,9,1", "3,9,1.5,2.", "\0\0,\0"])
def test_a_table_continues_after_a_crash(tmp_path, torn):
    path = tmp_path / "stats.csv"
    path.write_text("epoch_num,global_step,a,b\n1,3,0.5,\n2,6,0.25,1.0\n" + torn)
    trainer = resumed_at(tmp_path, 3)
    writer = CSVWriter()
    writer.setup_graph(trainer)
    writer._before_train()
    trainer.loop.epoch_num, trainer.loop.global_step = 2, 6
    writer.process_scalar("b", 8.0, 6)
    writer.process_scalar("c", 9.0, 6)
    writer._trigger()
    writer._after_train()
    assert read_table(path) == [
        ["epoch_num", "global_step", "a", "b", "c"],
        ["1", "3", "0.5", "", ""],
        ["2", "6", "", "8.0", "9.0"],
    ]


def test_a_file_that_is_no_such_table_is_left_alone(line):
    (line.log_dir / "stats.csv").write_text("name,age\nAda,36\n")
    with pytest.raises(ValueError, match=r"stats.csv is not a table of statistics: its first columns are"):
        line.run([Late()], monitors=[CSVWriter()])
    assert (line.log_dir / "stats.csv").read_text() == "name,age\nAda,36\n"


class Disturb(Callback):
    """Does something to the log directory after the first epoch."""

    def __init__(self, deed):
        self._deed = deed

    def _trigger_epoch(self):
        if self.epoch_num == 2:
            self._deed(self.log_dir)


@pytest.mark.parametrize("monitor", [JSONWriter, CSVWriter])
def test_a_directory_that_vanishes_is_an_error_in_the_loop(line, monitor):
    line.log_dir = line.log_dir / "logs"
    line.log_dir.mkdir()

    def vanish(path):
        os.rename(path, path.with_name("elsewhere"))

    with pytest.raises(FileNotFoundError):
        line.run([Late(), Disturb(vanish)], monitors=[monitor()], max_epoch=5)


def test_a_file_that_is_moved_away_is_recreated(line):
    def rotate(path):
        os.rename(path / "stats.jsonl", path / "stats.old")

    line.run([Late(), Disturb(rotate)], monitors=[JSONWriter()], max_epoch=4)
    steps = [
        [json.loads(row)["global_step"] for row in (line.log_dir / name).read_text().splitlines()]
        for name in ("stats.old", "stats.jsonl")
    ]
    assert steps == [[3], [6, 9, 12]]
