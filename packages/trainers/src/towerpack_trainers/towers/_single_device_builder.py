"""One tower, on a device chosen by TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._builder import Builder, Exchange
from ._cost_gradients import Pairs

__all__ = ["SingleDeviceBuilder"]


@final
class SingleDeviceBuilder(Builder):
    """Adds one training tower to the current graph, without a scope, and the ops that train it.

    With an exchange, several processes of one tower each train together: each objective applies the result
    of the exchange, such as the average over all processes.

    Args:
        seed: see `Builder`.
        exchange: see `Builder`. Called once per objective, in order.

    Example:
        ```python
        builder = SingleDeviceBuilder()
        train_op = builder.build(cost_function, source.get_input_tensors, tf.train.AdamOptimizer())
        ```
    """

    def __init__(self, seed: int | None = None, exchange: Exchange | None = None) -> None:
        super().__init__(1, seed, exchange)

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        return gradients if self._exchange is None else [self._exchange(gradients[0])]

    def _gate(self, pairs: Pairs, after: Sequence[tf.Operation]) -> Pairs:
        # An exchange has already gated them.
        return super()._gate(pairs, after) if after or self._exchange is None else pairs
