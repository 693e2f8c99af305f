"""`tensorpack.graph_builder`: towers on several devices, for programs that build their graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_trainers as trainers
from towerpack_trainers.replicate import LeastLoaded

from ..tfutils.session import device_names
from ._towers import TrainTowerContext

__all__ = ["DataParallelBuilder", "GraphBuilder", "LeastLoadedDeviceSetter"]


class GraphBuilder:
    """Builds a graph."""


class DataParallelBuilder(GraphBuilder):
    """Builds one tower on each of several devices.

    Args:
        towers: the indices of the GPUs.
    """

    def __init__(self, towers: Sequence[int]) -> None:
        self.towers = list(towers)

    @staticmethod
    def call_for_each_tower(
        towers: Sequence[int],
        func: Callable[[], Any],
        devices: Sequence[Any] | None = None,
        use_vs: Sequence[bool] | None = None,
    ) -> list[Any]:
        """Calls a function for each tower, in its context and on its device, and returns the results.

        Args:
            towers: the indices of the GPUs.
            func: builds one tower.
            devices: names of devices, or device functions; None: the GPUs of `towers`.
            use_vs: whether each tower has separate variables; None: towers share variables.
        """
        places = device_names(towers) if devices is None else list(devices)
        own = [False] * len(towers) if use_vs is None else list(use_vs)
        results = []
        for index, (place, has_own) in enumerate(zip(places, own, strict=True)):
            name = f"tower{index}"
            reuse = True if index and not has_own else None
            with (
                tf.device(place),
                tf.variable_scope(tf.get_variable_scope(), reuse=reuse),
                TrainTowerContext(name, name if has_own and index else "", index, len(towers)),
            ):
                results.append(func())
        return results

    build_on_towers = call_for_each_tower


class LeastLoadedDeviceSetter:
    """A device function: places variables on the device with the fewest elements, other ops on one device.

    Args:
        worker_device: the device of other ops.
        ps_devices: the devices of variables.
    """

    def __init__(self, worker_device: str, ps_devices: Sequence[str]) -> None:
        present = trainers.get_num_gpu()
        self.worker_device = worker_device if present else "/cpu:0"
        self._choose = LeastLoaded(list(ps_devices) if present else ["/cpu:0"])

    def __call__(self, op: tf.Operation) -> str:
        if op.device:
            return str(op.device)
        if op.type in ("Variable", "VariableV2", "VarHandleOp"):
            return self._choose(tf.TensorShape(op.get_attr("shape")).num_elements() or 0)
        return self.worker_device

    def __str__(self) -> str:
        return f"LeastLoadedDeviceSetter-{self.worker_device}"
