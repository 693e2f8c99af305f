"""Event files, JSON lines, the console."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    JSONWriter,
    LoopState,
    Monitors,
    ScalarPrinter,
    StatisticError,
    TFEventWriter,
)


class Put(Callback):
    """Puts a value each epoch, and one each step if asked."""

    def __init__(self, value=1.5, each_step=False):
        self.value, self.each_step = value, each_step

    def produces(self):
        return ["value"]

    def _trigger_step(self):
        if self.each_step:
            self.trainer.monitors.put_scalar("step_value", self.global_step)

    def _trigger(self):
        self.trainer.monitors.put_scalar("value", self.value)


def read_lines(directory):
    return [json.loads(line) for line in (directory / "stats.jsonl").read_text().splitlines()]


def test_json_lines_one_per_epoch(line):
    line.run([Put()], monitors=[JSONWriter()])
    assert read_lines(line.log_dir) == [
        {"epoch_num": 1, "global_step": 3, "value": 1.5},
        {"epoch_num": 2, "global_step": 6, "value": 1.5},
    ]


def test_json_lines_one_per_step_that_put(line):
    line.run([Put(each_step=True)], monitors=[JSONWriter()], max_epoch=1)
    assert [
        (row["global_step"], row["step_value"], row.get("value")) for row in read_lines(line.log_dir)
    ] == [
        (1, 1, None),
        (2, 2, None),
        (3, 3, 1.5),
    ]


@pytest.mark.parametrize(
    ("value", "written"), [(np.nan, "NaN"), (np.inf, "Infinity"), (-np.inf, "-Infinity")]
)
def test_json_lines_of_values_that_json_lacks(line, value, written):
    line.run([Put(value)], monitors=[JSONWriter()], max_epoch=1)
    assert read_lines(line.log_dir)[0]["value"] == written


def test_event_file_holds_scalars_and_graph(line):
    line.run([Put()], monitors=[TFEventWriter()])
    [path] = line.log_dir.glob("events.out.tfevents.*")
    events = list(tf.train.summary_iterator(str(path)))
    scalars = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    assert scalars == [(3, "value", 1.5), (6, "value", 1.5)]
    assert any(event.graph_def for event in events)


def printed(line, capsys, callbacks, *monitors):
    line.run(callbacks, monitors=monitors, max_epoch=1)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_the_console_prints_declared_statistics(line, capsys):
    shown = printed(line, capsys, [Put(each_step=True)], ScalarPrinter())
    assert shown == "epoch 1/1, step 3: value 1.5\n"


def test_the_console_prints_all_on_demand(line, capsys):
    shown = printed(line, capsys, [Put(each_step=True)], ScalarPrinter(verbose=True))
    assert shown == "epoch 1/1, step 3: value 1.5  step_value 3\n"


def test_the_console_prints_the_end_of_an_epoch_without_statistics(line, capsys):
    assert printed(line, capsys, [], ScalarPrinter()) == "epoch 1/1, step 3\n"


def test_console_lists(line, capsys):
    monitors = ScalarPrinter(whitelist=["val"], blacklist=["^step"])
    assert printed(line, capsys, [Put(each_step=True)], monitors) == "epoch 1/1, step 3: value 1.5\n"
    assert (
        printed(line, capsys, [Put(each_step=True)], ScalarPrinter(blacklist=["val"]))
        == "epoch 1/1, step 3\n"
    )


def test_declared_statistics_come_in_the_order_of_the_callbacks_averages_first(line, capsys):
    class Zebra(Put):
        def produces_in_run(self):
            return ["zebra"]

        def _after_epoch(self):
            self.trainer.monitors.put_scalar("zebra", 2)

    shown = printed(line, capsys, [Zebra()], ScalarPrinter())
    assert shown == "epoch 1/1, step 3: zebra 2  value 1.5\n"


def test_messages_are_printed_as_they_come(line, capsys):
    class Say(Callback):
        def _before_train(self):
            self.trainer.monitors.put_message("files: here")

    assert printed(line, capsys, [Say()], ScalarPrinter()) == "files: here\nepoch 1/1, step 3\n"


def test_a_writer_without_a_directory_names_the_remedy(line):
    line.log_dir = None
    with pytest.raises(
        ValueError, match=r"JSONWriter writes files, but this run has no log directory. Give log_dir="
    ):
        line.run([], monitors=[JSONWriter()])


def test_history_and_latest():
    loop = LoopState(steps_per_epoch=1, max_epoch=1)
    monitors = Monitors([], loop)
    for loop.global_step in (1, 2):
        monitors.put_scalar("x", np.float32(loop.global_step))
    assert monitors.get_history("x") == [(1, 1.0), (2, 2.0)]
    assert monitors.get_latest("x") == 2.0
    assert "x" in monitors
    with pytest.raises(
        StatisticError,
        match=r"The statistic 'y' has no value yet. Statistics with values: "
        r"x",
    ):
        monitors.get_latest("y")


@pytest.mark.parametrize("value", [[1, 2], "three", None])
def test_a_statistic_is_one_number(value):
    with pytest.raises(TypeError, match=r"put_scalar\('x'\) takes one number, received"):
        Monitors([], LoopState(steps_per_epoch=1, max_epoch=1)).put_scalar("x", value)


@pytest.mark.parametrize("kind", ["float32", "int8", "bool", "bfloat16", "float16"])
def test_a_scalar_of_any_type(kind):
    monitors = Monitors([], LoopState(steps_per_epoch=1, max_epoch=1))
    monitors.put_scalar("x", np.ones((1, 1), tf.as_dtype(kind).as_numpy_dtype))
    assert monitors.get_latest("x") == 1


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("global_step", StatisticError, "each row of statistics has a counter of this name"),
        ("epoch_num", StatisticError, "each row of statistics has a counter of this name"),
        ("\ud800", StatisticError, "the name cannot be written as UTF-8"),
        (3, TypeError, r"put_scalar\(3\): expected a string as the name"),
    ],
)
def test_names_that_no_row_can_have(name, error, told):
    monitors = Monitors([], LoopState(steps_per_epoch=1, max_epoch=1))
    with pytest.raises(error, match=told):
        monitors.put_scalar(name, 1.0)
    assert name not in monitors


@pytest.mark.parametrize("form", [tf.Summary.SerializeToString, lambda summary: summary])
def test_a_summary_gives_its_scalars(form):
    monitors = Monitors([], LoopState(steps_per_epoch=1, max_epoch=1))
    monitors.put_summary(form(tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=2.5)])))
    assert monitors.get_latest("x") == 2.5


def test_monitors_must_be_monitors():
    with pytest.raises(TypeError, match=r"monitors must be Monitor objects"):
        Monitors([Put()], LoopState(steps_per_epoch=1, max_epoch=1))


def test_monitors_used_again_write_where_the_second_run_is(straight_line, tmp_path):
    monitors = [JSONWriter(), TFEventWriter()]
    for name in ("first", "second"):
        straight_line(tmp_path / name).run([Put()], monitors=monitors)
    assert read_lines(tmp_path / "first") == read_lines(tmp_path / "second")
    assert len(list((tmp_path / "second").glob("events.out.tfevents.*"))) == 1
