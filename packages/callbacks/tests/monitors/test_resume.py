"""Files and history of a run that was interrupted are those of one that was not."""

import json
import time

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CSVWriter, JSONWriter, TFEventWriter
from towerpack_callbacks.checkpoint import (
    assign_variables,
    latest_checkpoint,
    read_checkpoint,
    snapshot_variables,
    write_checkpoint,
)
from towerpack_callbacks.monitors import ScalarHistory


class Put(Callback):
    """Puts something at each step, something at every other, and something each epoch."""

    def _trigger_step(self):
        self.trainer.monitors.put_scalar("each", self.global_step / 7)
        if self.global_step % 2:
            self.trainer.monitors.put_scalar("odd", self.global_step)

    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar("epoch", float("inf") if self.epoch_num == 2 else self.epoch_num)


class Save(Callback):
    """Writes a checkpoint every other step, and waits for it."""

    def _trigger_step(self):
        self._wanted = self.global_step % 2 == 0

    def _after_triggers(self):
        if self._wanted:
            values = snapshot_variables(self.trainer.sess, tf.global_variables())
            path = self.log_dir / f"model-{self.global_step}"
            write_checkpoint(path, values, self.trainer.state_dict())


class Die(Callback):
    """Leaves the loop by an error after a step, as far behind all other callbacks as can be."""

    def __init__(self, step):
        self._step = step

    def _trigger_step(self):
        if self.global_step == self._step:
            raise MemoryError


class GoOn(Callback):
    """Does the work of a resuming trainer."""

    def __init__(self, path):
        self._path = path

    def _before_train(self):
        checkpoint = read_checkpoint(self._path)
        assign_variables(self.trainer.sess, checkpoint.variables)
        loop = self.trainer.loop
        loop.load_state_dict(checkpoint.state["loop"])
        loop.local_step = loop.starting_step - 1
        self.trainer.callbacks.load_state_dict(checkpoint.state["callbacks"])


class Keep(Callback):
    """Remembers the history at the end."""

    def _after_train(self):
        monitors = self.trainer.monitors
        self.histories = {name: monitors.get_history(name) for name in ("each", "odd", "epoch")}


def train(line, before=(), after=()):
    keep = Keep()
    line.run(
        [*before, Put(), keep, Save(), *after],
        monitors=[JSONWriter(), CSVWriter(), TFEventWriter()],
        max_epoch=4,
    )
    return keep


def content(path):
    return {name: (path / name).read_text() for name in ("stats.jsonl", "stats.csv")}


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [3, 5, 6, 7, 11])
@pytest.mark.parametrize("goes_on_from", ["latest", "model-2"])
def test_an_interrupted_run_ends_with_the_same_files_and_history(
    straight_line, tmp_path, dies_at, goes_on_from
):
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole = train(straight_line(tmp_path / "whole"))
    broken = tmp_path / "broken"
    with pytest.raises(MemoryError):
        train(straight_line(broken), after=[Die(dies_at)])
    with (broken / "stats.jsonl").open("a") as file:
        file.write('{"epoch_num": 3, "global_st')
    with (broken / "stats.csv").open("a") as file:
        file.write("3,7,1.")
    start = latest_checkpoint(broken) if goes_on_from == "latest" else broken / goes_on_from
    resumed = train(straight_line(broken), before=[GoOn(start)])
    assert content(broken) == content(tmp_path / "whole")
    assert resumed.histories == whole.histories


def test_a_file_has_each_step_once(line):
    train(line)
    rows = [json.loads(row) for row in (line.log_dir / "stats.jsonl").read_text().splitlines()]
    assert [row["global_step"] for row in rows] == list(range(1, 13))
    assert rows[5] == {"epoch_num": 2, "global_step": 6, "each": 6 / 7, "epoch": "Infinity"}


def test_a_checkpoint_inside_an_epoch_finds_its_steps_in_the_event_file(line):
    seen = []

    class Look(Callback):
        """Reads the event file right after a checkpoint was written."""

        def _after_triggers(self):
            [path] = self.log_dir.glob("events.*")
            if self.global_step == 2:
                events = tf.train.summary_iterator(str(path))
                seen.extend(event.step for event in events if event.summary.value)

    train(line, after=[Look()])
    assert seen == [1, 1, 2]  # two statistics at the first step, one at the second


def test_a_resumed_event_file_keeps_the_checkpoints_own_step(line, straight_line):
    train(line)
    train(straight_line(line.log_dir), before=[GoOn(line.log_dir / "model-4")])
    logs = [
        (event.session_log.status, event.step)
        for path in line.log_dir.glob("events.*")
        for event in tf.train.summary_iterator(str(path))
        if event.HasField("session_log")
    ]
    assert logs == [(tf.SessionLog.START, 5)]  # TensorBoard drops from that step on


def test_a_resumed_event_file_sorts_behind_those_of_the_same_second(line, straight_line):
    train(line)
    # Of a process with a higher number, right now.
    interrupted = line.log_dir / f"events.out.tfevents.{int(time.time())}.host.999999999.0"
    interrupted.touch()
    train(straight_line(line.log_dir), before=[GoOn(line.log_dir / "model-4")])
    assert max(path.name for path in line.log_dir.glob("events.*")) > interrupted.name


def test_history_is_exact_and_bounded():
    history = ScalarHistory(limit=10)
    for step in range(1, 1001):
        history.process_scalar("a", 1 / step, step)
    history.process_scalar("b", float("nan"), 1)
    assert 10 <= len(history.pairs("a")) <= 20
    assert history.pairs("a")[-10:] == [(step, 1 / step) for step in range(991, 1001)]
    copy = ScalarHistory(limit=10)
    copy.load_state_dict(json.loads(json.dumps(history.state_dict())))
    assert copy.pairs("a") == history.pairs("a")
    assert copy.names() == ["a", "b"] and copy.latest("b") != copy.latest("b")
    assert copy.state_dict() == history.state_dict()
