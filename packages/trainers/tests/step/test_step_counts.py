"""`global_step` counts each step once, even if other code writes it, and in a resumed run."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every, ModelSaver, StepFetch
from towerpack_callbacks.checkpoint import read_checkpoint
from towerpack_trainers import AccumGradOptimizer, DynamicLossScaleOptimizer, Trainer
from towerpack_trainers.step import SpeedTrial


class Count(Callback):
    """Compares the counter in the graph with the one outside, at the end of each epoch and of all."""

    def __init__(self):
        self.pairs = []

    def _trigger(self):
        step = self.trainer.sess.run(tf.train.get_global_step(self.graph))
        self.pairs.append((int(step), self.global_step))

    def _after_train(self):
        self._trigger()


class Fetch(Callback):
    """Fetches a tensor at every other step, which is another session call."""

    def step_fetches(self):
        return [
            StepFetch(self.graph.get_tensor_by_name("weight/Read/ReadVariableOp:0"), every=Every(steps=2))
        ]


def weight_and_step():
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    return weight, tf.train.get_or_create_global_step()


def minimized(optimizer):
    weight, step = weight_and_step()
    return optimizer.minimize(tf.square(weight - 1.0), global_step=step)


def with_op(make):
    weight, step = weight_and_step()
    return tf.group(weight.assign_add(1.0, read_value=False), make(step))


def beside(make):
    """A graph with an op that never runs."""
    weight, step = weight_and_step()
    make(step)
    return weight.assign_add(1.0, read_value=False)


def plain():
    return tf.train.GradientDescentOptimizer(0.1)


STEPS = {
    "minimize": lambda: minimized(plain()),
    "accumulate": lambda: minimized(AccumGradOptimizer(plain(), 4)),
    "loss scale": lambda: minimized(DynamicLossScaleOptimizer(plain())),
    "assign": lambda: with_op(lambda step: tf.assign(step, step + 1)),
    "assign_add": lambda: with_op(lambda step: tf.assign_add(step, 1)),
    "by a batch": lambda: with_op(lambda step: tf.assign_add(step, 32)),
    "twice": lambda: with_op(lambda step: tf.group(tf.assign_add(step, 1), tf.assign_add(step, 1))),
    "at times": lambda: with_op(lambda step: tf.cond(step < 3, lambda: tf.assign_add(step, 1), lambda: step)),
    "never run": lambda: beside(lambda step: tf.assign_add(step, 1)),
    "not at all": lambda: beside(lambda step: step + 1),
}


def train(make, log_dir=None, callbacks=(), epochs=2, **changes):
    count = Count()
    trainer = Trainer(
        steps_per_epoch=6,
        max_epoch=epochs,
        callbacks=[count, *callbacks],
        extra_callbacks=[],
        monitors=[],
        log_dir=log_dir,
        **changes,
    )
    with trainer.graph.as_default():
        trainer.train_op = make()
    trainer.train()
    return count.pairs


@pytest.mark.parametrize("fetches", [False, True], ids=["alone", "fetched"])
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_one_count_per_step(make, fetches):
    assert train(make, callbacks=[Fetch()] if fetches else []) == [(6, 6), (12, 12), (12, 12)]


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_one_count_per_step_in_calls_of_several_steps(make):
    assert train(make, steps_per_run=3) == [(6, 6), (12, 12), (12, 12)]


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_one_count_per_step_without_observers(make, monkeypatch):
    monkeypatch.setattr(SpeedTrial, "SINGLES", 0)
    monkeypatch.setattr(SpeedTrial, "is_faster", True)
    assert train(make) == [(6, 6), (12, 12), (12, 12)]


@pytest.mark.parametrize("name", ["accumulate", "loss scale", "assign", "never run"])
def test_a_resumed_run_continues_counting(name, tmp_path):
    make = STEPS[name]
    train(make, tmp_path, [ModelSaver()], epochs=3)
    assert read_checkpoint(tmp_path).variables["global_step"] == 18
    assert train(make, tmp_path, [ModelSaver()], epochs=4, resume="auto") == [(24, 24), (24, 24)]
    loop = read_checkpoint(tmp_path).state["loop"]
    assert (loop["global_step"], loop["epoch_num"]) == (24, 4)


def test_other_runs_in_a_custom_step_are_not_counted():
    class Own(Trainer):
        def _setup(self):
            weight, step = weight_and_step()
            self.first = weight.assign_add(1.0, read_value=False)
            self.besides = tf.assign_add(step, 1).op
            self.train_op = plain().minimize(tf.square(weight), global_step=step)

        def run_step(self):
            self.sess.run(self.besides)
            self.hooked_sess.run(self.first)
            self.hooked_sess.run(self.train_op)

    count = Count()
    Own(
        steps_per_epoch=3, max_epoch=1, callbacks=[count], extra_callbacks=[], monitors=[], log_dir=None
    ).train()
    assert count.pairs == [(6, 6), (6, 6)]
