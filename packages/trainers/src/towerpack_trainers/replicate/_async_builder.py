"""Towers that share their variables and update them each on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._single_cost import all_before_any, compute_gradients
from ..towers._tower import TowerFunc
from ._average_gradients import check_same_variables
from ._data_parallel_builder import DataParallelBuilder, MakeOptimizer, TakeInputs, make_optimizer
from ._variable_placement import SharedVariables

__all__ = ["AsyncMultiGPUBuilder"]


@final
class AsyncMultiGPUBuilder(DataParallelBuilder):
    """Shared variables; each tower applies its gradients as soon as it has them.

    After Recht et al., "Hogwild!" (2011), arXiv:1106.5730. A tower may compute with variables that others
    have updated meanwhile, so runs are not reproducible. One step of the loop makes as many updates as there
    are towers. Two towers may update one variable at the same moment, and then a part of one update can get
    lost, unless the optimizer has `use_locking=True`.

    Args:
        devices: the device of each tower.
        variable_devices: where variables live and are updated; see `SyncMultiGPUParameterServerBuilder`.
        scale_gradient: divide gradients by the number of towers, so that the updates of one step together are
            about that of the average, and learning rates can be kept.
        seed: see `DataParallelBuilder`.
    """

    def __init__(
        self,
        devices: Sequence[str],
        variable_devices: Sequence[str] = ("/cpu:0",),
        scale_gradient: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(devices, seed)
        self._variables = SharedVariables(variable_devices)
        self._divisor = len(self.devices) if scale_gradient else 1

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer,
    ) -> tf.Operation:
        """Builds towers, gradients and updates; see `DataParallelBuilder.build`."""
        function, optimizer = self._as_tower_func(cost_function), make_optimizer(optimizer)
        gradients = []
        for index in range(len(self.devices)):
            tower = self._build_tower(function, take_inputs)
            with tf.device(self._placement(index)):
                gradients.append([(self._scale(g), v) for g, v in compute_gradients(tower, optimizer)])
        self._sum.check_complete()
        check_same_variables([[variable.op.name for _, variable in pairs] for pairs in gradients])
        updates = [
            optimizer.apply_gradients(all_before_any(pairs), name="train_op_of_tower") for pairs in gradients
        ]
        return tf.group(*updates, name="train_op")

    def _scale(self, gradient: Any) -> Any:
        if self._divisor == 1:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values / self._divisor, gradient.indices, gradient.dense_shape)
        return gradient / self._divisor

    def _placement(self, index: int) -> Callable[[tf.Operation], str]:
        return self._variables.beside(self.devices[index])
