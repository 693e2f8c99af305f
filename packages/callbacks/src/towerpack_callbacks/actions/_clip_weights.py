"""Keeps weights in a range, as the critic of a Wasserstein GAN needs."""

from __future__ import annotations

from typing import final

import tensorflow.compat.v1 as tf

from ..callback import EVERY_STEP, Callback, Every, check_number_above_zero
from ..graph import floating_variables

__all__ = ["ClipWeights"]


@final
class ClipWeights(Callback):
    """Clips the weights of a scope to [-limit, limit] after each step, and before the first.

    So the critic of a Wasserstein GAN stays Lipschitz (Arjovsky et al. 2017, arXiv:1701.07875, whose limit is
    0.01). Clipping is a session call of its own after the step: in the step, it would come before the update
    or after it, by chance. Where one step updates the critic several times, only its last update is followed
    by clipping. An optimizer that clips after each of its updates, such as `VariableAssignmentOptimizer` of
    towerpack-trainers, is exact there, and spares the call.

    Args:
        limit: the largest absolute value of a weight.
        scope: the variable scope of the weights, such as "discrim"; None: all trainable variables.

    Raises:
        ValueError: the limit is no number above 0.
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
        clipped = [tf.clip_by_value(w.read_value(), -self._limit, self._limit) for w in weights]
        self._clip_op = tf.group(*[tf.assign(weight, value) for weight, value in zip(weights, clipped)])

    def _before_train(self) -> None:
        self._clip = self.trainer.sess.make_callable(self._clip_op)
        self._clip()

    def step_period(self) -> Every | None:
        return EVERY_STEP

    def _trigger_step(self) -> None:
        self._clip()

    def __str__(self) -> str:
        return f"ClipWeights({self._limit}, scope={self._scope!r})"
