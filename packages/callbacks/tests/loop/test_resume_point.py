"""A monitored session that resumes from a checkpoint equals an uninterrupted one."""

import contextlib
import json
import random

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CheckpointError,
    JSONWriter,
    ModelSaver,
    PeriodicTrigger,
    ProcessTensors,
    StopTraining,
    as_session_hooks,
)
from towerpack_callbacks.checkpoint import read_checkpoint, write_checkpoint


class Stream:
    """Feeds the numbers 0, 1, ... and knows its position."""

    def __init__(self):
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]

    def take(self):
        self.position += 1
        return self.position - 1


class Sum(Callback):
    """Adds random numbers up, over all runs."""

    total = 0.0

    def _trigger_step(self):
        self.total += random.random()
        self.trainer.monitors.put_scalar("total", self.total)

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


def train(log_dir, steps=None, counts=True, max_epoch=3, resume="auto", fails=False, **options):
    """Trains, perhaps some steps only; returns the costs, the sum and the numbers taken."""
    stream, total, taken, seen = Stream(), Sum(), [], []
    with tf.Graph().as_default():
        number = tf.placeholder(tf.float32, [], "number")
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        cost = tf.square(weight - number, "cost")
        op = tf.train.MomentumOptimizer(0.05, 0.9).minimize(cost, step if counts else None)
        callbacks = [total, ProcessTensors(["cost"], lambda value: seen.append(float(value)))]
        hooks = as_session_hooks(
            [*callbacks, PeriodicTrigger(ModelSaver(background=False), every_k_steps=4)],
            steps_per_epoch=3,
            max_epoch=max_epoch,
            log_dir=log_dir,
            monitors=[JSONWriter()],
            resume=resume,
            data=stream,
            **options,
        )
        with (
            contextlib.suppress(KeyboardInterrupt),
            tf.train.MonitoredTrainingSession(hooks=hooks) as sess,
        ):
            while not sess.should_stop() and len(taken) != steps:
                taken.append(stream.take())
                sess.run(op, {number: taken[-1]})
            if fails:
                raise KeyboardInterrupt
    return seen, total.total, taken


def rows(log_dir):
    """The records of JSONWriter."""
    [file] = log_dir.glob("stat*.json*")
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [(row["global_step"], row["epoch_num"], row["total"]) for row in found if "total" in row]


@pytest.mark.parametrize("counts", [True, False], ids=["graph counts", "hooks count"])
def test_an_interrupted_and_resumed_run_equals_the_whole_run(tmp_path, counts):
    random.seed(5)
    whole = train(tmp_path / "whole", counts=counts)
    random.seed(5)
    train(tmp_path / "parts", steps=6, counts=counts, fails=True)
    random.seed(6)
    seen, total, taken = train(tmp_path / "parts", counts=counts)
    assert taken == [4, 5, 6, 7, 8]  # from the checkpoint of step 4, inside epoch 2
    assert seen == whole[0][4:]
    assert total == whole[1]
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


@pytest.mark.parametrize("steps", [5, 6])
@pytest.mark.parametrize("counts", [True, False], ids=["graph counts", "hooks count"])
def test_a_session_that_ends_normally_saves_its_last_steps(tmp_path, counts, steps):
    random.seed(5)
    whole = train(tmp_path / "whole", counts=counts)
    random.seed(5)
    train(tmp_path / "parts", steps=steps, counts=counts)
    random.seed(6)
    seen, total, taken = train(tmp_path / "parts", counts=counts)
    assert (taken, seen, total) == (list(range(steps, 9)), whole[0][steps:], whole[1])
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_data_that_end_inside_an_epoch_end_at_the_last_whole_step(tmp_path):
    with tf.Graph().as_default():
        number = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(5)).get_next()
        weight = tf.get_variable("weight", [], tf.int64, initializer=tf.zeros_initializer())
        op = weight.assign_add(number)
        hooks = as_session_hooks(
            [ModelSaver()], steps_per_epoch=3, max_epoch=3, log_dir=tmp_path, monitors=[], resume="auto"
        )
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(op)
    saved = read_checkpoint(tmp_path)
    assert saved.variables["weight"] == 10
    assert saved.state["loop"] == {"epoch_num": 2, "local_step": 1, "global_step": 5, "steps_per_epoch": 3}


@pytest.mark.parametrize("method", ["_trigger_step", "_after_epoch", "_trigger_epoch"])
def test_a_stop_at_the_end_of_an_epoch_leaves_its_triggers_to_the_resumed_run(tmp_path, method):
    class Note(Callback):
        def _trigger_epoch(self):
            epochs.append(self.epoch_num)

    class Stop(Callback):
        pass

    def stop(callback):
        if callback.global_step == 6 and not stops:
            stops.append(method)
            raise StopTraining("as the test asks")

    setattr(Stop, method, stop)
    epochs, steps, stops = [], [], []
    for _ in range(2):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            callbacks = [PeriodicTrigger(ModelSaver(), every_k_epochs=9), Stop(), Note()]
            hooks = as_session_hooks(
                callbacks, steps_per_epoch=3, max_epoch=3, log_dir=tmp_path, monitors=[], resume="auto"
            )
            with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
                while not sess.should_stop():
                    steps.append(int(sess.run(step)))
    assert epochs == [1, 2, 3]
    assert len(steps) == 9


def test_a_finished_run_has_nothing_left(tmp_path, caplog):
    caplog.set_level("INFO")
    train(tmp_path, max_epoch=4)
    assert train(tmp_path, max_epoch=4)[2] == []
    assert "Epoch 4 was the last one; no steps are left to train." in caplog.text
    assert train(tmp_path, max_epoch=5)[2] == [12, 13, 14]


def test_checkpoints_to_resume_are_checked(tmp_path):
    with pytest.raises(
        ValueError, match='resume="auto" looks for a checkpoint in log_dir=, but log_dir is None'
    ):
        as_session_hooks([], steps_per_epoch=1, resume="auto")
    with pytest.raises(CheckpointError, match="is not a checkpoint and contains none"):
        as_session_hooks([], steps_per_epoch=1, resume=tmp_path)
    only = write_checkpoint(tmp_path / "model-1", {"w": np.zeros(2)}, {})
    with pytest.raises(CheckpointError, match="contains only variables and no training state"):
        as_session_hooks([], steps_per_epoch=1, resume=only)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("weigth", [], r"only in the graph: weigth; only in the checkpoint: weight\)\. Build the same model"),
        ("weight", [2], r"does not match this graph: Variable 'weight' has shape \(2,\); received \(\)"),
    ],
    ids=["name", "shape"],
)
def test_other_variables_are_refused(line, name, shape, message):
    line.run([ModelSaver()])
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        tf.get_variable(name, shape)
        hooks = as_session_hooks([], steps_per_epoch=3, log_dir=line.log_dir, resume="auto")
        with pytest.raises(CheckpointError, match=message):
            tf.train.MonitoredTrainingSession(hooks=hooks)
