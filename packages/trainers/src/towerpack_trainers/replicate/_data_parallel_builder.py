"""One replica per device: the base class of all builders that combine the gradients of towers."""

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

    Every tower takes its own inputs; no batch is split. So a step trains on one batch for each device.

    Args:
        devices: the device of each tower, such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, which
            the session options must include (`default_session_config(devices)` does that).
        seed: makes dropout masks depend only on seed, step, tower and layer. None: they differ in each run.
        exchange: see `Builder`.

    Raises:
        ConfigError: a device is invalid, does not exist, or is named twice.

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
        # Before the towers: random initial values depend on the number of ops before them.
        made = None if optimizer is None else make_optimizer(optimizer)
        return super().build(cost_function, take_inputs, made)

    def _begin(self, function: TowerFunc | Callable[..., Any]) -> TowerFunc:
        begun = super()._begin(function)
        note_devices(self.devices)
        return begun

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self.devices[index])  # type: ignore[no-any-return]
