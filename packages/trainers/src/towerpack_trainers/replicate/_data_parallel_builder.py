"""One replica per device: what all ways to combine their gradients have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

from .._argument_checks import make_optimizer
from ..towers._builder import Builder, Exchange, TakeInputs
from ..towers._devices import check_devices, note_devices
from ..towers._objective import MakeOptimizer
from ..towers._tower import TowerFunc

__all__ = ["DataParallelBuilder"]


class DataParallelBuilder(Builder):
    """Adds one replica of a model per device to the current graph, and the ops that train it.

    Every tower takes inputs of its own; nothing is split. So a step trains on as many batches as there are
    devices.

    Args:
        devices: the device of each tower, such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, which
            the session must be told of (`default_session_config(devices)` does).
        seed: makes dropout masks depend on seed, step, tower and layer alone. None: they are drawn anew.
        exchange: see `Builder`.

    Raises:
        ConfigError: a device is no device, is not there, or is named twice.

    Example:
        ```python
        builder = SyncMultiGPUReplicatedBuilder(["/gpu:0", "/gpu:1"])
        train_op = builder.build(cost_function, source.get_input_tensors, tf.train.AdamOptimizer())
        with tf.train.MonitoredTrainingSession(hooks=[*source.hooks(), *builder.hooks()]) as session:
            while not session.should_stop():
                session.run(train_op)
        ```
    """

    def __init__(
        self, devices: Sequence[str], seed: int | None = None, exchange: Exchange | None = None
    ) -> None:
        self.devices = check_devices(devices)
        super().__init__(len(self.devices), seed, exchange)

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer | None = None,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the updates; see `Builder.build`."""
        # Before the towers: initial values that are random depend on how many ops there are before them.
        made = None if optimizer is None else make_optimizer(optimizer)
        return super().build(cost_function, take_inputs, made)

    def _begin(self, function: TowerFunc | Callable[..., Any]) -> TowerFunc:
        begun = super()._begin(function)
        note_devices(self.devices)
        return begun

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self.devices[index])  # type: ignore[no-any-return]
