"""The log file, the record of a run, and its graph."""

import json
import logging
import re

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, LogFile, ModelSaver, RunRecord, StopTraining

_log = logging.getLogger("towerpack_callbacks")


class Say(Callback):
    """Says something in each way that reaches the console, and puts one statistic."""

    def produces(self):
        return ["half"]

    def _trigger(self):
        self.trainer.monitors.put_scalar("half", self.global_step / 2)
        self.trainer.monitors.put_message(f"message {self.epoch_num}")
        _log.warning("warning %d", self.epoch_num)


def log_lines(directory):
    lines = (directory / "log.log").read_text().splitlines()
    times = [re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)", line) for line in lines]
    return [found[1] for found in times]


def events(directory):
    return [json.loads(line) for line in (directory / "run.jsonl").read_text().splitlines()]


def test_the_log_has_the_lines_of_the_console_and_is_appended_to(line):
    for _ in range(2):
        line.run([Say()], monitors=[LogFile()], max_epoch=1)
    start, *rest = log_lines(line.log_dir)
    assert re.match(r"from step 0, by .*python", start)
    once = ["message 1", "warning: warning 1", "epoch 1/1, step 3: half 1.5", "ends at step 3"]
    assert rest == [*once, start, *once]


def test_python_prints_warnings_as_without_a_log(line, monkeypatch, capsys):
    # As in a plain script: pytest's handlers would be others.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    line.run([Say()], monitors=[LogFile(), LogFile("second.log")], max_epoch=2)
    assert re.findall(r"warning \d", capsys.readouterr().err) == ["warning 1", "warning 2"]


def test_no_handler_stays_after_a_failure(line):
    class Fail(Callback):
        def _trigger(self):
            raise ArithmeticError("on purpose")

    with pytest.raises(ArithmeticError):
        line.run([Fail()], monitors=[LogFile()])
    assert not [handler for handler in _log.handlers if "File" in type(handler).__name__]
    assert log_lines(line.log_dir)[-1] == "ends at step 3"


def test_starts_epochs_checkpoints_and_ends_are_recorded(line):
    line.run([ModelSaver()], monitors=[RunRecord()])
    start, *progress, end = events(line.log_dir)
    assert start["event"] == "start" and start["format"] == 1 and start["command"]
    assert (start["max_epoch"], start["steps_per_epoch"], start["step"]) == (2, 3, 0)
    assert {(event["event"], event["epoch"], event["step"]) for event in progress} == {
        ("progress", 1, 3),
        ("progress", 2, 6),
    }
    assert end["event"] == "end" and end["spent"]["save"] > 0
    times = [event["time"] for event in (start, *progress, end)]
    assert times == sorted(times)


def test_a_torn_line_goes_and_all_others_stay(line):
    line.run([], monitors=[RunRecord()], max_epoch=1)
    whole = events(line.log_dir)
    with (line.log_dir / "run.jsonl").open("a") as file:
        file.write('{"event": "progr')
    line.run([], monitors=[RunRecord()], max_epoch=1)
    assert events(line.log_dir)[: len(whole)] == whole
    assert [event["event"] for event in events(line.log_dir)] == ["start", "progress", "end"] * 2


def test_a_stop_is_an_end(line):
    class Stop(Callback):
        def _trigger(self):
            raise StopTraining

    line.run([Stop()], monitors=[RunRecord()], max_epoch=5)
    assert events(line.log_dir)[-1]["event"] == "end"


def test_the_graph_can_be_imported(line):
    line.run([], monitors=[RunRecord()])
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(line.log_dir / "graph.meta"))
        assert [variable.name for variable in tf.trainable_variables()] == ["weight:0"]
        assert graph.get_operation_by_name(line.train_op.name)
