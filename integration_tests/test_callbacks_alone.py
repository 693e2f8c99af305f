"""Callbacks on a graph with no trainer: a monitored session, and TensorFlow's own ops."""

import importlib.util
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    MergeAllSummaries,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    add_moving_summary,
    as_session_hooks,
)
from towerpack_callbacks.checkpoint import all_checkpoints, assign_variables, read_checkpoint


def build():
    x = tf.random.normal([64, 4], seed=1)
    y = x @ tf.constant([[1.0], [2.0], [3.0], [4.0]])
    weights = tf.get_variable("weights", [4, 1], initializer=tf.zeros_initializer())
    cost = tf.reduce_mean(tf.square(x @ weights - y), name="cost")
    tf.summary.scalar("cost_now", cost)
    add_moving_summary(cost)
    return weights, tf.train.AdamOptimizer(0.1).minimize(cost)


@pytest.mark.parametrize("name", ["towerpack_trainers", "towerpack_dataflow", "towerpack_layers"])
def test_the_other_wheels_are_not_here(name):
    assert importlib.util.find_spec(name) is None


def test_a_plain_loop_is_saved_and_recorded(tmp_path):
    callbacks = [
        PeriodicTrigger(ModelSaver(keep_last=2), every_k_steps=50),
        MovingAverageSummary(),
        MergeAllSummaries(),
        MinSaver("cost"),
    ]
    with tf.Graph().as_default():
        _, train_op = build()
        hooks = as_session_hooks(callbacks, steps_per_epoch=100, max_epoch=3, log_dir=tmp_path)
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)
    assert [path.name for path in all_checkpoints(tmp_path)] == ["model-250", "model-300"]
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [line["global_step"] for line in lines] == [100, 200, 300]
    assert lines[-1]["cost"] < 0.05 * lines[0]["cost"]
    [events] = tmp_path.glob("events.out.tfevents.*")
    tags = {value.tag for event in tf.train.summary_iterator(str(events)) for value in event.summary.value}
    assert tags == {"cost", "cost_now"}
    assert read_checkpoint(tmp_path / "min-cost").variables["global_step"] == 300


def test_what_was_saved_comes_back_in_another_session(tmp_path):
    with tf.Graph().as_default():
        _, train_op = build()
        hooks = as_session_hooks(
            [ModelSaver()], steps_per_epoch=20, max_epoch=1, log_dir=tmp_path, monitors=[]
        )
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)
    saved = read_checkpoint(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        weights, _ = build()
        session.run(tf.global_variables_initializer())
        values = {k: v for k, v in saved.variables.items() if k != "global_step"}
        assign_variables(session, values)
        np.testing.assert_array_equal(session.run(weights), saved.variables["weights"])
