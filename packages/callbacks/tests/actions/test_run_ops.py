"""Ops that callbacks run, and non-finite values."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CheckNumerics, NonFiniteError, PeriodicTrigger, RunOp


class Total(Callback):
    """Keeps a variable's last value."""

    def __init__(self, name):
        self.name = name

    def _setup_graph(self):
        (self._tensor,) = self.trainer.get_tensors([self.name])

    def _after_train(self):
        self.value = self.trainer.sess.run(self._tensor)


@pytest.mark.parametrize(
    ("arguments", "times"),
    [
        ({}, 3),
        ({"run_before": False}, 2),
        ({"run_as_trigger": False}, 1),
        ({"run_before": False, "run_as_trigger": False, "run_step": True}, 6),
    ],
    ids=str,
)
@pytest.mark.parametrize("as_function", [True, False])
def test_run_op(line, arguments, times, as_function):
    with line.graph.as_default():
        runs = tf.get_variable("runs", shape=(), initializer=tf.zeros_initializer())
        op = (lambda: tf.assign_add(runs, 1)) if as_function else tf.assign_add(runs, 1)
    total = Total("runs")
    line.run([RunOp(op, **arguments), total])
    assert total.value == times


def test_run_op_at_another_period(line):
    with line.graph.as_default():
        op = tf.assign_add(tf.get_variable("runs", shape=(), initializer=tf.zeros_initializer()), 1)
    total = Total("runs")
    line.run([PeriodicTrigger(RunOp(op, run_before=False), every_k_steps=2), total])
    assert total.value == 3


@pytest.mark.parametrize("wrong", [3, "op", None])
def test_an_op_is_an_op(wrong):
    with pytest.raises(TypeError, match="takes an op or a function that makes one"):
        RunOp(wrong)


def test_the_function_returns_an_op(line):
    with pytest.raises(TypeError, match="the function must return an op, it returned None"):
        line.run([RunOp(lambda: None)])


def test_an_op_that_never_runs_is_a_mistake():
    with pytest.raises(ValueError, match="would never run its op"):
        RunOp(lambda: None, run_before=False, run_as_trigger=False)


def test_variables_that_are_not_finite_are_named(line):
    with line.graph.as_default():
        for name in ("fine", "broken"):
            value = tf.get_variable(name, [2], initializer=tf.ones_initializer())
        tf.get_variable("counter", [], tf.int32, initializer=tf.zeros_initializer())
        break_it = tf.assign(value, [1.0, float("nan")])
    callbacks = [
        RunOp(break_it, run_before=False),
        PeriodicTrigger(CheckNumerics(), every_k_epochs=1, before_train=True),
    ]
    with pytest.raises(
        NonFiniteError, match=r"After step 3, 1 of 3 variables .* not finite: broken\. TerminateOnNaN"
    ):
        line.run(callbacks)


def test_finite_variables_raise_no_error(line):
    assert line.run([CheckNumerics(), CheckNumerics(collection="nothing here")]) == 6
