"""The default step, made as cheap as TensorFlow allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import StepCounter, StepPlan
from towerpack_inputsource import fast_callable

__all__ = ["DefaultStep", "compile_step"]


@final
class DefaultStep:
    """The step without periodic work: by far the most frequent one, so it is counted within the same call.

    Create it before the graph is final.

    Args:
        train_op: the op that `run_step` runs.
        plan: the fetches of every step.
        counter: the step counter.

    Attributes:
        train_op: the given op.
        done: the op that makes the step and counts it.
        values: the fetches with a receiver.
        receivers: one for each element of `values`.
    """

    def __init__(self, train_op: tf.Operation, plan: StepPlan, counter: StepCounter) -> None:
        self.train_op = train_op
        received = [(fetch.fetches, fetch.receive) for fetch in plan.due if fetch.receive is not None]
        self.values = [fetches for fetches, _ in received]
        self.receivers = [receive for _, receive in received]
        wanted = tf.nest.flatten([train_op, plan.fetches])
        self.done: tf.Operation = counter.count_after(wanted)


def compile_step(sess: tf.Session, done: tf.Operation, values: Sequence[Any]) -> Callable[[], Sequence[Any]]:
    """Returns a function that runs a step and returns the fetched values.

    Args:
        sess: the session.
        done: the op of the step.
        values: the tensors to fetch with it.
    """
    if not values:
        return fast_callable(sess, [done])
    if len({id(value) for value in values}) == 1 and tf.is_tensor(values[0]):
        # A bare tensor is returned in a third of the time that a structure around it takes.
        run, count = fast_callable(sess, [done], fetches=values[:1]), len(values)
        return lambda: run() * count
    run_all = sess.make_callable([done, values])
    return lambda: run_all()[1]
