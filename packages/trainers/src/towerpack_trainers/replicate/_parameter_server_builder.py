"""Towers that share their variables and update them together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..towers._builder import Exchange
from ..towers._cost_gradients import Pairs
from ._average_gradients import average_gradients
from ._data_parallel_builder import DataParallelBuilder
from ._variable_placement import SharedVariables

__all__ = ["SyncMultiGPUParameterServerBuilder"]


@final
class SyncMultiGPUParameterServerBuilder(DataParallelBuilder):
    """Shared variables, averaged gradients, one update per step.

    One step equals that of one tower with the combined batch of all towers, if the cost is a mean over
    examples and does not depend on the batch otherwise.

    Args:
        devices: the device of each tower.
        variable_devices: the devices on which variables are stored, averaged and updated. With several, each
            variable goes to the device with the fewest bytes of variables so far.
        seed: see `DataParallelBuilder`.
        exchange: takes the towers' averaged gradients and the variables of one objective, and returns as many
            pairs: `processes.gradient_exchange` averages over processes with several towers each.
    """

    def __init__(
        self,
        devices: Sequence[str],
        variable_devices: Sequence[str] = ("/cpu:0",),
        seed: int | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(devices, seed, exchange)
        self._variables = SharedVariables(variable_devices)

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self._variables.beside(self.devices[index]))  # type: ignore[no-any-return]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        averages = average_gradients(gradients)
        return [averages if self._exchange is None else self._exchange(averages)]
