"""Averages the gradients of towers with separate variables, and puts the result on the device of each tower.

Every mode takes and returns the gradients in the order of the variables, so each tower updates its variable
with the average of all towers' gradients for that variable, regardless of the intermediate steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import ConfigError
from ..towers._devices import are_gpus
from ._average_gradients import average
from ._gradient_packing import GradientPacker

__all__ = ["MODES", "all_reduce", "choose_mode", "sum_in_two_groups", "sum_over_gpus"]

MODES = ("nccl", "hierarchical", "cpu")

_Sum = Callable[[Sequence[tf.Tensor], int], list[tf.Tensor]]


def choose_mode(mode: str | None, devices: Sequence[str]) -> str:
    """Chooses the averaging mode for the given devices.

    Args:
        mode: one of `MODES`; None: "nccl" between GPUs, "cpu" otherwise.
        devices: the devices of the towers.

    Raises:
        ConfigError: there is no such mode, or the devices do not support it.
    """
    gpus = are_gpus(devices) and len(devices) > 1
    if mode is None:
        return "nccl" if gpus else "cpu"
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r}: expected one of {', '.join(map(repr, MODES))}, or None.")
    if mode == "nccl" and not gpus:
        raise ConfigError(
            f'mode="nccl" works between GPUs, but the towers are on {", ".join(devices)}. Use mode="cpu".'
        )
    if mode == "hierarchical" and len(devices) < 2:
        raise ConfigError(
            'mode="hierarchical" divides the devices into two groups, but there is only one. Use mode="cpu".'
        )
    return mode


def all_reduce(towers: Sequence[Sequence[Any]], devices: Sequence[str], mode: str) -> list[list[Any]]:
    """Averages gradients over towers.

    Args:
        towers: for each tower, its gradients (dense or `tf.IndexedSlices`), in the same order.
        devices: the device of each tower.
        mode: "cpu": each gradient on the CPU. "hierarchical": packed, on the towers' devices, within two
            groups and then between them. "nccl": packed, with NCCL.

    Returns:
        For each tower, the averages, in the same order.
    """
    if len(towers) == 1:
        return [list(towers[0])]
    columns = list(zip(*towers))
    packable = [mode != "cpu" and all(map(_is_packable, column)) for column in columns]
    dense = _reduce_packed(
        [[gradient for gradient, yes in zip(tower, packable) if yes] for tower in towers],
        devices,
        _sum_by_nccl if mode == "nccl" else _sum_on(devices),
    )
    with tf.device("/cpu:0"):
        others = [average(column) for column, yes in zip(columns, packable) if not yes]
    return [_merge(packable, mine, others) for mine in dense]


def _is_packable(gradient: Any) -> bool:
    return (
        tf.is_tensor(gradient)
        and not isinstance(gradient, tf.IndexedSlices)
        and (gradient.shape.is_fully_defined())
    )


def _merge(packable: Sequence[bool], packed: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    from_packed, from_others = iter(packed), iter(others)
    return [next(from_packed if yes else from_others) for yes in packable]


def _reduce_packed(
    towers: Sequence[Sequence[tf.Tensor]], devices: Sequence[str], sum_of: _Sum
) -> list[list[tf.Tensor]]:
    """Averages gradients packed into one flat tensor per device; each device sums one of them."""
    if not towers[0]:
        return [[] for _ in towers]
    packer = GradientPacker.like(towers[0], count=len(devices))
    packed = []
    for gradients, device in zip(towers, devices):
        with tf.device(device):
            packed.append(packer.pack(gradients))
    sums = [sum_of(column, number) for number, column in enumerate(zip(*packed))]
    averages = []
    for mine, device in zip(zip(*sums), devices):
        with tf.device(device):
            averages.append(packer.unpack([total / len(devices) for total in mine]))
    return averages


def _sum_by_nccl(tensors: Sequence[tf.Tensor], number: int) -> list[tf.Tensor]:
    return sum_over_gpus(tensors)


def _sum_on(devices: Sequence[str]) -> _Sum:
    return lambda tensors, number: sum_in_two_groups(tensors, devices, number)


def sum_in_two_groups(tensors: Sequence[tf.Tensor], devices: Sequence[str], number: int) -> list[tf.Tensor]:
    """Sums tensors onto each device: within the first and the second half, then between the two.

    If links within a half are faster than links between halves, as on hosts with eight GPUs, only one tensor
    crosses in each direction.

    Args:
        tensors: tensors of the same shape and dtype, one per device.
        devices: at least two.
        number: selects the device of the sum in each half, in turn.
    """
    half = len(devices) // 2
    groups = [range(half), range(half, len(devices))]
    partial, meeting = [], []
    for group in groups:
        meeting.append(devices[group[number % len(group)]])
        with tf.device(meeting[-1]):
            partial.append(tf.add_n([tensors[index] for index in group]))
    totals: list[tf.Tensor] = []
    for group, place in zip(groups, meeting):
        with tf.device(place):
            # In the same order in both halves, so that all towers get the same bits.
            total = partial[0] + partial[1]
        totals += [total] * len(group)
    return totals


def sum_over_gpus(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sums tensors onto the device of each.

    This is the only place that calls NCCL, and our tests do not run it: they have no GPUs. NCCL waits until
    all devices take part, so all results must be run together.

    Args:
        tensors: tensors of the same shape and dtype, each on a different GPU of this host.
    """
    # Not public since TensorFlow 2, but used by its own strategies; the op, NcclAllReduce, is public.
    from tensorflow.python.ops import nccl_ops

    return list(nccl_ops.all_sum(tensors))
