"""The devices of towers: GPUs, or the CPU where there is none."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import towerpack_trainers as trainers

from ..utils import logger

__all__ = ["device_name", "device_names"]


def device_name(number: int) -> str:
    """Returns the device of a GPU's number, or of -1 for the CPU."""
    if number >= 0 and not trainers.get_num_gpu():
        _warn()
        return "/cpu:0"
    return "/cpu:0" if number < 0 else f"/gpu:{number}"


def device_names(gpus: int | Sequence[int]) -> list[str]:
    """Returns the devices of towers. Without any GPU they are virtual CPU devices, one for each tower."""
    numbers = list(range(gpus)) if isinstance(gpus, int) else list(gpus)
    if trainers.get_num_gpu():
        return [f"/gpu:{number}" for number in numbers]
    _warn()
    return [f"/cpu:{number}" for number in range(len(numbers))]


@functools.cache
def _warn() -> None:
    logger.warn("There is no GPU on this host: towers and predictors run on the CPU.")
