"""Towers with separate variables, kept equal by equal updates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback

from ..towers._builder import TakeInputs
from ..towers._cost_gradients import Pairs
from ..towers._objective import MakeOptimizer
from ..towers._tower import TowerFunc
from ._allreduce import all_reduce, choose_mode
from ._data_parallel_builder import DataParallelBuilder
from ._keep_replicas_equal import KeepReplicasEqual
from ._tower_copies import Copies, Originals, independent_optimizer

__all__ = ["SyncMultiGPUReplicatedBuilder"]


@final
class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """A copy of all variables on each device; averaged gradients; the same update on each.

    The results equal those of `SyncMultiGPUParameterServerBuilder`. Only gradients are sent between devices,
    so it is faster if the connections between devices are slow. The first tower's variables have the same
    names as in a model without replication; only they are global variables, which are saved and restored.
    Those of the others are local, in scopes "tower1", "tower2" and so on; `hooks()` copies the first tower's
    values to them when a session begins.

    Args:
        devices: the device of each tower.
        mode: the averaging mode. "nccl": with NCCL, between GPUs. "hierarchical": on the devices,
            within two groups and then between them. "cpu": on the CPU. None: "nccl" between GPUs, else "cpu".
        seed: see `DataParallelBuilder`.

    Raises:
        ConfigError: there is no such mode, or the devices do not support it.

    Attributes:
        copy_variables: the op that copies all variables of the first tower to the others; None
            before the towers are built.
        copy_statistics: the op that copies the model's variables without gradients, such as moving averages;
            None without such variables.
    """

    _own_variables = True

    def __init__(self, devices: Sequence[str], mode: str | None = None, seed: int | None = None) -> None:
        super().__init__(devices, seed)
        self.mode = choose_mode(mode, self.devices)
        self.copy_variables: tf.Operation | None = None
        self.copy_statistics: tf.Operation | None = None
        self._model, self._state = Originals(), Originals()
        self._copies = [Copies(f"tower{index}") for index in range(1, len(self.devices))]

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer | None = None,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the updates; see `Builder.build`."""
        train_op = super().build(cost_function, take_inputs, optimizer)
        self._add_copying()
        return train_op

    def call_for_each_tower(
        self, function: TowerFunc | Callable[..., Any], take_inputs: TakeInputs = tuple
    ) -> list[Any]:
        """Calls a tower function for each tower; see `Builder.call_for_each_tower`.

        `hooks()` makes the towers' variables equal, as after `build`; the updates must be equal too, such as
        averages of all towers' gradients.
        """
        outputs = super().call_for_each_tower(function, take_inputs)
        self._add_copying()
        return outputs

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hook that makes the copies equal after variables are initialised or restored."""
        return [] if self.copy_variables is None else [_CopyAtStart(self.copy_variables)]

    def callbacks(self) -> list[Callback]:
        """Returns the callback that keeps the copies equal under a trainer."""
        return [KeepReplicasEqual(self)]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        rows = [[gradient for gradient, _ in pairs] for pairs in gradients]
        averages = all_reduce(rows, self.devices, self.mode)
        return [
            [(gradient, variable) for gradient, (_, variable) in zip(row, pairs)]
            for row, pairs in zip(averages, gradients)
        ]

    def _add_copying(self) -> None:
        trained = {id(variable) for variable in self.towers[0].trainable_variables}
        model = {id(variable) for variable in self._model.variables}
        values = {}
        everything, statistics = [], []
        with tf.name_scope("copy_variables"):
            for original, mine in (pair for copies in self._copies for pair in copies.pairs):
                if id(original) not in values:
                    values[id(original)] = original.value()
                everything.append(mine.assign(values[id(original)], read_value=False))
                if id(original) in model and id(original) not in trained:
                    statistics.append(everything[-1])
        if everything:
            self.copy_variables = tf.group(*everything, name="copy_variables")
        if statistics:
            self.copy_statistics = tf.group(*statistics, name="copy_statistics")

    def _optimizers(self, first: list[tf.train.Optimizer]) -> list[list[tf.train.Optimizer]]:
        return [first, *([independent_optimizer(optimizer) for optimizer in first] for _ in self._copies)]

    def _making_variables(self, index: int) -> AbstractContextManager[Any]:
        return self._copies[index - 1].of_model(self._model) if index else self._model.recording()

    def _making_state(self, index: int) -> AbstractContextManager[Any]:
        return self._copies[index - 1].of_optimizer(self._state) if index else self._state.recording()

    @contextlib.contextmanager
    def _differentiating(self, index: int) -> Iterator[None]:
        with self._place(index), self._making_state(index):
            yield

    @contextlib.contextmanager
    def _updating(self, index: int) -> Iterator[None]:
        scope = tf.name_scope(f"tower{index}/" if index else None)
        with self._place(index), scope, self._making_state(index):
            yield

    def _name_update(self, index: int, name: str) -> str:
        return "update" if index else name

    def _join_updates(self, updates: Sequence[tf.Operation], name: str) -> tf.Operation:
        return super()._join_updates(updates, f"{name}s")


@final
class _CopyAtStart(tf.train.SessionRunHook):
    """Runs an op after the session's variables have been initialised or restored."""

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        session.run(self._op)
