"""The devices of towers: GPUs, or the CPU of a host without GPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import towerpack_trainers as trainers

from ..utils import logger

__all__ = ["device_name", "device_names"]


def device_name(number: int) -> str:
    """Returns the device of a GPU's index; -1 is the CPU."""
    if number >= 0 and not trainers.get_num_gpu():
        _warn()
        return "/cpu:0"
    return "/cpu:0" if number < 0 else f"/gpu:{number}"


def device_names(gpus: int | Sequence[int]) -> list[str]:
    """Returns the devices of towers; on a host without GPUs, one virtual CPU device for each tower."""
    numbers = list(range(gpus)) if isinstance(gpus, int) else list(gpus)
    if trainers.get_num_gpu():
        return [f"/gpu:{number}" for number in numbers]
    _warn()
    return [f"/cpu:{number}" for number in range(len(numbers))]


@functools.cache
def _warn() -> None:
    logger.warn("This host has no GPU: towers and predictors run on the CPU.")
