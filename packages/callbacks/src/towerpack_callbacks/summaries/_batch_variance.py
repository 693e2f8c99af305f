"""Records the variance of a tensor over the examples of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, Callback, Every, StepFetch, as_every

__all__ = ["BatchVariance"]


@final
class BatchVariance(Callback):
    """Puts the variance of a tensor over the examples of a batch, as `<name>_variance`.

    It is the variance over the first axis, averaged over all others. The variance of generated images or
    features approaches 0 when a generator gives the same output for all random inputs; `CollapseAlarm` can
    monitor this. It is computed together with a step, from the same batch.

    Args:
        name: name of the tensor, of shape [batch, ...] with at least two examples.
        every: the period.

    Raises:
        ValueError: (at set-up) the tensor has no batch axis.

    Example:
        ```python
        callbacks = [BatchVariance("gen/out"), CollapseAlarm("gen/out_variance", below=0.01)]
        ```
    """

    def __init__(self, name: str, every: Every | str = EVERY_EPOCH) -> None:
        self._name = name
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        (tensor,) = self.trainer.get_tensors([self._name])
        if tensor.shape.rank == 0:
            raise ValueError(
                f"BatchVariance({self._name!r}): expected a tensor with a batch axis, not a scalar."
            )
        values = tf.cast(tensor, tf.float32)
        self._variance = tf.reduce_mean(tf.math.reduce_variance(values, axis=0))

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._variance, self._put, self._every)]

    def _put(self, variance: Any) -> None:
        self.trainer.monitors.put_scalar(self.produces_in_run()[0], float(variance))

    def produces_in_run(self) -> Sequence[str]:
        return [f"{self._name.split(':')[0]}_variance"]

    def __str__(self) -> str:
        return f"BatchVariance({self._name!r})"
