"""Keeps weights in a range, as the critic of a Wasserstein GAN needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import final

import tensorflow.compat.v1 as tf

from ..callback import EVERY_STEP, Callback, Every, check_number_above_zero
from ..graph import find_applied_gradients, floating_variables

__all__ = ["ClipWeights"]


@final
class ClipWeights(Callback):
    """Clips the weights of a scope to [-limit, limit] after each of their updates, and before the first step.

    This keeps the critic of a Wasserstein GAN Lipschitz (Arjovsky et al. 2017, arXiv:1701.07875, with a limit
    of 0.01). Clipping is part of the update, also if one step updates the critic several times. If an
    optimizer does not use TensorFlow's fused update ops, its weights are clipped in a separate session call
    after each step.

    Args:
        limit: the largest absolute value of a weight.
        scope: the variable scope of the weights, such as "discrim"; None: all trainable variables.

    Raises:
        ValueError: the limit is not a number above 0.
        ScopeError: (at set-up) the scope has no floating-point variable; the message lists the scopes.

    Example:
        ```python
        ClipWeights(0.01, scope="discrim")
        ```
    """

    chief_only = False

    def __init__(self, limit: float, scope: str | None = None) -> None:
        check_number_above_zero(f"ClipWeights(limit={limit!r})", limit)
        self._limit, self._scope = limit, scope

    def _setup_graph(self) -> None:
        weights = floating_variables(self.graph, self._scope)
        weights += list(_copies_in_towers(self.graph, weights))
        self._clip_op = tf.group(*map(self._clipped, weights))
        clipped = {id(weight) for weight in weights if self._clip_in_updates(weight)}
        rest = [weight for weight in weights if id(weight) not in clipped]
        self._clip_after_step = tf.group(*map(self._clipped, rest)) if rest else None

    def _clip_in_updates(self, weight: tf.Variable) -> bool:
        """Makes ops that wait for a weight's update wait for its clipping; returns whether any exist."""
        found = False
        for update in find_applied_gradients(self.graph, [weight]):
            waiting = list(update.op._control_outputs)
            with tf.control_dependencies([update.op]):
                clipped = self._clipped(weight)
            for op in waiting:
                op._add_control_input(clipped)
                found = True
        return found

    def _clipped(self, weight: tf.Variable) -> tf.Operation:
        with tf.device(weight.device):
            value = tf.clip_by_value(weight.read_value(), -self._limit, self._limit)
            return tf.assign(weight, value).op

    def _before_train(self) -> None:
        sess = self.trainer.sess
        sess.run(self._clip_op)
        if self._clip_after_step is not None:
            self._clip = sess.make_callable(self._clip_after_step)

    def step_period(self) -> Every | None:
        return None if self._clip_after_step is None else EVERY_STEP

    def _trigger_step(self) -> None:
        if self._clip_after_step is not None:
            self._clip()

    def __str__(self) -> str:
        return f"ClipWeights({self._limit}, scope={self._scope!r})"


def _copies_in_towers(graph: tf.Graph, weights: list[tf.Variable]) -> Iterator[tf.Variable]:
    """Finds the replicas' copies of the weights, which must stay equal to them."""
    names = {weight.op.name for weight in weights}
    for variable in graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES):
        if re.sub(r"^tower\d+/", "", variable.op.name) in names:
            yield variable
