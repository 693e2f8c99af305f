"""The conformance kit: what this package holds its own callbacks to, for yours."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow.compat.v1 as tf

from ._bridge import as_session_hooks
from ._callback import Callback

__all__ = ["check_callback"]

_STEPS, _EPOCHS = 3, 2


class _GraphWatcher(Callback):
    """Stands last and checks that nothing adds ops once training has begun."""

    def _before_train(self) -> None:
        self._version = self.graph.version

    def _trigger_epoch(self) -> None:
        if self.graph.version != self._version:
            raise AssertionError("The callback added ops to the graph after _setup_graph.")


def check_callback(
    make_callback: Callable[[], Callback], log_dir: str | Path, before: Sequence[Callback] = ()
) -> None:
    """Runs a callback in a small training and checks that it keeps to the rules.

    It trains a straight line for 2 epochs of 3 steps, with a scalar tensor "cost" and a variable "weight".
    Checked are: the callback sets up and runs; no op is added after `_setup_graph`; its state is JSON and
    survives a round trip into a new callback.

    Args:
        make_callback: makes a new callback, each time the same.
        log_dir: an empty directory the callback may write to.
        before: callbacks it relies on, such as the producers of its statistics.

    Raises:
        AssertionError: a rule is broken; the message says which.
    """
    directory = Path(log_dir)
    callback = make_callback()
    with tf.Graph().as_default():
        train_op = _straight_line()
        _run_all(train_op, _hooks([*before, callback], directory))
    state = callback.state_dict()
    try:
        copied = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"state_dict() of {callback} is not made of JSON values: {error}") from error
    fresh = make_callback()
    with tf.Graph().as_default():
        _straight_line()
        _hooks([*before, fresh], directory)[0].begin()
    if copied:
        fresh.load_state_dict(copied)
    if fresh.state_dict() != copied:
        raise AssertionError(
            f"{callback} does not keep its state: saved {copied!r}, after loading {fresh.state_dict()!r}."
        )


def _straight_line() -> tf.Operation:
    weight = tf.get_variable("weight", shape=(), initializer=tf.zeros_initializer())
    cost = tf.square(weight - 1.0, name="cost")
    return tf.train.GradientDescentOptimizer(0.1).minimize(cost)


def _hooks(callbacks: Sequence[Callback], log_dir: Path) -> list[tf.train.SessionRunHook]:
    return as_session_hooks(
        [*callbacks, _GraphWatcher()],
        steps_per_epoch=_STEPS,
        max_epoch=_EPOCHS,
        log_dir=log_dir,
        monitors=[],
    )


def _run_all(train_op: tf.Operation, hooks: list[tf.train.SessionRunHook]) -> None:
    with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        steps = 0
        while not sess.should_stop():
            sess.run(train_op)
            steps += 1
    if steps != _STEPS * _EPOCHS:
        raise AssertionError(f"Training stopped after {steps} of {_STEPS * _EPOCHS} steps.")
