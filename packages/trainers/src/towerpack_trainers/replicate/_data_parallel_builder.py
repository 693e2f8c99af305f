"""Builds one replica per device. What is done with their gradients is up to each kind of builder."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

from .._errors import ConfigError
from ..towers._devices import check_devices
from ..towers._tower import Tower, TowerFunc
from ._cross_tower_sum import CrossTowerSum

__all__ = ["DataParallelBuilder", "TakeInputs", "make_optimizer"]

TakeInputs = Callable[[], Sequence[tf.Tensor]]
MakeOptimizer = Callable[[], tf.train.Optimizer]


class DataParallelBuilder(abc.ABC):
    """Adds one replica of a model per device to the current graph, and the op of one step of training.

    It knows no trainer: build the graph with it, and run the op in any loop. `build` is for a model with one
    cost and one optimizer; `call_for_each_tower` gives the towers alone, for anything else.

    Every tower takes inputs of its own; nothing is split. So a step trains on as many batches as there are
    devices.

    Args:
        devices: the device of each tower, such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, which
            the session must be told of (`default_session_config(devices)` does).
        seed: makes dropout masks depend on seed, step, tower and layer alone. None: they are drawn anew.

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

    def __init__(self, devices: Sequence[str], seed: int | None = None) -> None:
        self.devices = check_devices(devices)
        self.towers: list[Tower] = []
        self._seed = seed
        self._inputs: list[tf.Tensor] = []
        self._sum = CrossTowerSum(len(self.devices))

    @abc.abstractmethod
    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the update.

        Args:
            cost_function: a tower function, see `ModelDesc.build_graph`; it returns the cost, a scalar.
            take_inputs: called once per tower, for the arguments of `cost_function`; for example
                `source.get_input_tensors`.
            optimizer: updates the variables; or a function that makes it inside the graph.

        Returns:
            The op of one step. The towers are in `towers`.

        Raises:
            TowerRuleError: the towers differ, or break another rule of tower functions.
            ModelError: there is no scalar cost that depends on a variable.
        """

    def call_for_each_tower(
        self, function: TowerFunc | Callable[..., Any], take_inputs: TakeInputs = tuple
    ) -> list[Any]:
        """Calls a tower function for each device, in its tower, and returns what it returned.

        Args:
            function: adds one replica.
            take_inputs: called once per tower, for the arguments of `function`.

        Raises:
            TowerRuleError: the towers differ, or break another rule of tower functions.
        """
        function = self._as_tower_func(function)
        outputs = [self._build_tower(function, take_inputs).output for _ in self.devices]
        self._sum.check_complete()
        return outputs

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """What the session must run with, once the graph is built."""
        return []

    def _build_tower(self, function: TowerFunc, take_inputs: TakeInputs) -> Tower:
        index = len(self.towers)
        context = self._context(index)
        with tf.device(self._placement(index)):
            # One take after the other, so that each run gives each tower the same datapoints. What is staged
            # was taken before the run, and cannot wait for what the run does.
            with tf.control_dependencies([] if any(map(_is_staged, self._inputs)) else self._inputs):
                self._inputs = list(take_inputs())
            with self._making_variables(index):
                tower = function.build(context, self._inputs)
        self.towers.append(tower)
        return tower

    def _as_tower_func(self, function: TowerFunc | Callable[..., Any]) -> TowerFunc:
        if self.towers:
            raise ConfigError(
                f"{type(self).__name__} has built its towers already. Make a new builder for a new graph."
            )
        tf.train.get_or_create_global_step()
        return function if isinstance(function, TowerFunc) else TowerFunc(function, [])

    def _context(self, index: int) -> TowerContext:
        count = len(self.devices)
        name = f"tower{index}" if count > 1 else ""
        own = index > 0 and self._own_variables
        return TowerContext(
            name,
            is_training=True,
            index=index,
            num_towers=count,
            variable_scope=name if own else "",
            reuse=True if index and not own else None,
            random_seed=self._seed,
            step=None if self._seed is None else tf.train.get_global_step().read_value(),
            cross_tower_sum=self._sum.of(index, name) if count > 1 else None,
        )

    # ---- what kinds of builders differ in

    _own_variables = False

    @abc.abstractmethod
    def _placement(self, index: int) -> str | Callable[[tf.Operation], str]:
        """The device of a tower, or a function from op to device."""

    def _making_variables(self, index: int) -> AbstractContextManager[Any]:
        """Around the building of a tower."""
        return contextlib.nullcontext()


def _is_staged(tensor: tf.Tensor) -> bool:
    op = tensor.op
    while op.type == "Identity":
        op = op.inputs[0].op
    return bool(op.type == "Unstage")


def make_optimizer(optimizer: tf.train.Optimizer | MakeOptimizer) -> tf.train.Optimizer:
    """Returns the optimizer that was given, or what the function that was given makes.

    Raises:
        TypeError: it is no TensorFlow optimizer.
    """
    made = optimizer
    if callable(made) and not isinstance(made, tf.train.Optimizer):
        made = made()
    if not isinstance(made, tf.train.Optimizer):
        raise TypeError(
            f"optimizer={made!r} of type {type(made).__name__}: expected a tf.train.Optimizer, such as "
            "tf.train.AdamOptimizer(1e-3), or a function that makes one."
        )
    return made
