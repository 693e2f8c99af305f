"""Towers that share their variables and update them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._single_cost import all_before_any, compute_gradients
from ..towers._tower import TowerFunc
from ._average_gradients import average_gradients
from ._data_parallel_builder import DataParallelBuilder, MakeOptimizer, TakeInputs, make_optimizer
from ._variable_placement import SharedVariables

__all__ = ["SyncMultiGPUParameterServerBuilder"]


@final
class SyncMultiGPUParameterServerBuilder(DataParallelBuilder):
    """Shared variables, averaged gradients, one update per step.

    One step is exactly that of one tower with all the towers' batches as one, if the cost is a mean over
    examples and depends on the batch in no other way.

    Args:
        devices: the device of each tower.
        variable_devices: where variables live, are averaged and updated. With several, each variable goes to
            the device with the fewest bytes of variables so far.
        seed: see `DataParallelBuilder`.
    """

    def __init__(
        self, devices: Sequence[str], variable_devices: Sequence[str] = ("/cpu:0",), seed: int | None = None
    ) -> None:
        super().__init__(devices, seed)
        self._variables = SharedVariables(variable_devices)

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer,
    ) -> tf.Operation:
        """Builds towers, gradients and the update; see `DataParallelBuilder.build`."""
        function, optimizer = self._as_tower_func(cost_function), make_optimizer(optimizer)
        gradients = []
        for index in range(len(self.devices)):
            tower = self._build_tower(function, take_inputs)
            with tf.device(self._placement(index)):
                gradients.append(compute_gradients(tower, optimizer))
        self._sum.check_complete()
        return optimizer.apply_gradients(all_before_any(average_gradients(gradients)), name="train_op")

    def _placement(self, index: int) -> Callable[[tf.Operation], str]:
        return self._variables.beside(self.devices[index])
