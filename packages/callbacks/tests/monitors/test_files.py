"""Lines and tables on disk, and what crashes and full disks leave of them."""

import csv
import itertools
import json
import os
import resource
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import Callback, CSVWriter, JSONWriter
from towerpack_callbacks.monitors import _line_file
from towerpack_callbacks.monitors._csv import _Table
from towerpack_callbacks.monitors._json_lines import _is_up_to
from towerpack_callbacks.monitors._line_file import LineFile, cut_lines_after
from towerpack_callbacks.monitors._step_row import StepRow


def cut(path, last_step):
    cut_lines_after(path, lambda line: _is_up_to(last_step, line))


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


def test_a_full_disk_leaves_whole_lines_and_what_was_kept_goes_out_later(tmp_path):
    path = tmp_path / "stats.jsonl"
    file = LineFile(path)
    file.append(["a" * 60])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # a write past it is cut short, then fails
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append(["b" * 60])
        assert path.read_text() == "a" * 60 + "\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append(["c"])
    file.close()
    assert path.read_text().split("\n") == ["a" * 60, "b" * 60, "c", ""]


@pytest.mark.slow
def test_a_killed_writer_leaves_lines_in_order_and_at_most_the_last_one_torn(tmp_path):
    path = tmp_path / "stats.jsonl"
    program = f"""
import itertools, json, runpy
file = runpy.run_path({_line_file.__file__!r})["LineFile"]({str(path)!r})
for step in itertools.count(1):
    file.append([json.dumps({{"global_step": step, "padding": "x" * 5000}})])
    if step == 200:
        print(flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    whole = path.read_bytes().split(b"\n")[:-1]
    steps = [json.loads(line)["global_step"] for line in whole]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 200
    cut(path, 150)
    assert [json.loads(line)["global_step"] for line in path.read_text().splitlines()] == list(range(1, 151))


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
def test_a_table_goes_on_after_a_crash(tmp_path, torn):
    path = tmp_path / "stats.csv"
    path.write_text("epoch_num,global_step,a,b\n1,3,0.5,\n2,6,0.25,1.0\n" + torn)
    table = _Table(path)
    table.drop_after(3)
    table.append([{"epoch_num": 2, "global_step": 6, "b": 8.0, "c": 9.0}])
    table.close()
    assert read_table(path) == [
        ["epoch_num", "global_step", "a", "b", "c"],
        ["1", "3", "0.5", "", ""],
        ["2", "6", "", "8.0", "9.0"],
    ]


def test_a_file_that_is_no_such_table_is_left_alone(line):
    (line.log_dir / "stats.csv").write_text("name,age\nAda,36\n")
    with pytest.raises(ValueError, match=r"stats.csv is no table of statistics: its first columns are"):
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


def test_a_file_that_is_moved_away_is_made_anew(line):
    def rotate(path):
        os.rename(path / "stats.jsonl", path / "stats.old")

    line.run([Late(), Disturb(rotate)], monitors=[JSONWriter()], max_epoch=4)
    steps = [
        [json.loads(row)["global_step"] for row in (line.log_dir / name).read_text().splitlines()]
        for name in ("stats.old", "stats.jsonl")
    ]
    assert steps == [[3], [6, 9, 12]]
