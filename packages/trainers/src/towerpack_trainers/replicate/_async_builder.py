"""Towers that share their variables and update them independently."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..towers._cost_gradients import Pairs
from ._data_parallel_builder import DataParallelBuilder
from ._variable_placement import SharedVariables

__all__ = ["AsyncMultiGPUBuilder"]


@final
class AsyncMultiGPUBuilder(DataParallelBuilder):
    """Shared variables; each tower applies its gradients as soon as it has computed them.

    After Recht et al., "Hogwild!" (2011), arXiv:1106.5730. A tower may use variables that others update
    meanwhile, so runs are not reproducible. One step of the loop makes one update for each tower. If two
    towers update a variable at the same moment, a part of one update can get lost, unless the optimizer has
    `use_locking=True`.

    Args:
        devices: the device of each tower.
        variable_devices: the devices of the variables and their updates; see
            `SyncMultiGPUParameterServerBuilder`.
        scale_gradient: divide gradients by the number of towers, so that the combined updates of one step are
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

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self._variables.beside(self.devices[index]))  # type: ignore[no-any-return]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        return gradients

    def _scale(self, pairs: Pairs) -> Pairs:
        if self._divisor == 1:
            return pairs
        return [(_divide(gradient, self._divisor), variable) for gradient, variable in pairs]

    def _name_update(self, index: int, name: str) -> str:
        return name if len(self.devices) == 1 else f"{name}_of_tower"


def _divide(gradient: Any, divisor: int) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / divisor, gradient.indices, gradient.dense_shape)
    return gradient / divisor
