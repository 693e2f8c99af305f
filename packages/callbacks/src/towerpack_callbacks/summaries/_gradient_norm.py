"""Records the norms of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, Callback, Every, StepFetch, as_every
from ..graph import find_applied_gradients

__all__ = ["GradientNorm"]


@final
class GradientNorm(Callback):
    """Puts the L2 norm of all gradients that the optimizer applies, as `gradient_norm`.

    The gradients are found in the graph as applied: averaged over towers, clipped. The norms are computed
    together with the step, and only when due.

    Args:
        per_variable: also put the norm of each gradient, as `gradient_norm/<variable>`.
        every: the period.

    Raises:
        ValueError: (at set-up) no gradient is found in the graph.
    """

    def __init__(self, per_variable: bool = False, every: Every | str = EVERY_EPOCH) -> None:
        self._per_variable = per_variable
        self._every = as_every(every)
        self._names: list[str] = []

    def _setup_graph(self) -> None:
        applied = find_applied_gradients(self.graph)
        if not applied:
            raise ValueError(
                "GradientNorm finds no optimizer's update in the graph. If the optimizer does not use "
                "TensorFlow's update ops, put the norm yourself: "
                "tf.summary.scalar('gradient_norm', tf.linalg.global_norm(gradients))."
            )
        self._names = [gradient.variable.op.name for gradient in applied] if self._per_variable else []
        squares = [tf.reduce_sum(tf.square(tf.cast(one.gradient, tf.float32))) for one in applied]
        self._squares = tf.stack(squares)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._squares, self._put, self._every)]

    def _put(self, squares: np.ndarray) -> None:
        monitors = self.trainer.monitors
        monitors.put_scalar("gradient_norm", float(np.sqrt(squares.sum(dtype=np.float64))))
        for name, square in zip(self._names, squares):
            monitors.put_scalar(f"gradient_norm/{name}", float(np.sqrt(square)))

    def produces_in_run(self) -> Sequence[str]:
        return ["gradient_norm", *(f"gradient_norm/{name}" for name in self._names)]
