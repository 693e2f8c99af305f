"""A graph, or a step, of the user's own; callbacks and the loop are ours."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    StopTraining,
    add_moving_summary,
)
from towerpack_callbacks.checkpoint import all_checkpoints, read_checkpoint
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import QueueInput
from towerpack_trainers import TrainConfig, Trainer

SPECS = [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def softmax_regression(image, label):
    weights = tf.get_variable("weights", [64, 10], initializer=tf.zeros_initializer())
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=label, logits=tf.reshape(image, [-1, 64]) @ weights
    )
    return tf.reduce_mean(losses, name="cost")


@pytest.mark.parametrize("counts", [False, True], ids=["we count", "the graph counts"])
def test_a_train_op_set_by_hand(tmp_path, counts):
    source = QueueInput(BatchData(Digits("train"), 32))
    with tf.Graph().as_default():
        source.setup(SPECS)
        cost = softmax_regression(*source.get_input_tensors())
        add_moving_summary(cost)
        step = tf.train.get_or_create_global_step() if counts else None
        train_op = tf.train.AdamOptimizer(1e-2).minimize(cost, global_step=step)
    callbacks = [
        PeriodicTrigger(ModelSaver(keep_last=2), every_k_steps=20),
        MovingAverageSummary(),
        MinSaver("cost"),
    ]

    trainer = Trainer(TrainConfig(data=source, callbacks=callbacks, max_epoch=3, log_dir=tmp_path, seed=1))
    trainer.train_op = train_op
    trainer.train()

    steps = 3 * len(BatchData(Digits("train"), 32))
    assert trainer.loop.global_step == steps
    assert read_checkpoint(tmp_path / "min-cost").variables["global_step"] == steps
    assert [path.name for path in all_checkpoints(tmp_path)] == ["model-100", "model-120"]
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [line["epoch_num"] for line in lines] == [1, 2, 3]
    assert lines[-1]["cost"] < 0.5 * lines[0]["cost"]


class Alternating(Trainer):
    """Trains two models against each other's errors: two runs in each step, on one input."""

    def _setup(self):
        self.source = QueueInput(BatchData(Digits("train"), 32))
        self.source.setup(SPECS)
        self.steps = []
        for name in ("first", "second"):
            with tf.variable_scope(name):
                cost = softmax_regression(*self.source.get_input_tensors())
                self.steps.append(tf.train.AdamOptimizer(1e-2).minimize(cost))
                add_moving_summary(cost)

    def run_step(self):
        for step in self.steps:
            self.hooked_sess.run(step)


def test_a_trainer_with_setup_and_step_of_its_own(tmp_path):
    class StopAfter(Callback):
        def _trigger_step(self):
            if self.global_step >= 150:
                raise StopTraining("enough")

    def make(resume=None, stop=()):
        callbacks = [PeriodicTrigger(ModelSaver(), every_k_steps=50), MovingAverageSummary(), *stop]
        return Alternating(
            TrainConfig(
                callbacks=callbacks,
                extra_callbacks=[],
                steps_per_epoch=20,
                max_epoch=5,
                log_dir=tmp_path,
                resume=resume,
                seed=1,
            )
        )

    trainer = make(stop=[StopAfter()])
    trainer.train()
    assert trainer.loop.global_step == 150
    assert (trainer.loop.epoch_num, trainer.loop.local_step) == (4, 14)

    resumed = make(resume="auto")
    resumed.train()
    # 75 steps of two runs each were done; the other 25 follow.
    assert resumed.loop.global_step == 200
    assert resumed.monitors.get_latest("first/cost") < 1.5
    assert resumed.monitors.get_latest("second/cost") < 1.5
    variables = read_checkpoint(tmp_path).variables
    assert variables["global_step"] == 200
    assert not np.array_equal(variables["first/weights"], variables["second/weights"])
