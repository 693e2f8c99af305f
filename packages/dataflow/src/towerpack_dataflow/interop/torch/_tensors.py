"""Conversion of the arrays in a datapoint to tensors that share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._errors import ComponentError

__all__ = ["tensor_of"]

# Types of the package ml_dtypes, which NumPy knows by name only.
_BY_NAME = {
    "bfloat16": (np.uint16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
}
_TEXT = "SUO"


def tensor_of(value: Any, path: tuple[Any, ...]) -> Any:
    """Returns an array or a NumPy scalar as a tensor; text, objects and other values unchanged.

    The tensor shares the memory of a writable array, and keeps that memory from being used again. PyTorch has
    no read-only tensors, so a read-only array is copied, and so are arrays with another byte order or
    negative strides.

    Raises:
        ComponentError: PyTorch has no such dtype.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    dtype = value.dtype
    if dtype.kind in _TEXT:
        return value
    if dtype.name in _BY_NAME:
        integer, wanted = _BY_NAME[dtype.name]
        return tensor_of(value.view(integer), path).view(wanted)
    if isinstance(value, np.ma.MaskedArray):
        raise _refused(value, path, "a masked array; use x.filled(0) in a MapDataComponent below")
    if not dtype.isnative:
        value = value.astype(dtype.newbyteorder("="))
    elif not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()
    try:
        return torch.from_numpy(value)
    except TypeError:
        raise _refused(
            value,
            path,
            f"an array of {dtype}, and PyTorch has no such dtype; convert it to numbers in a "
            "MapDataComponent below",
        ) from None


def _refused(value: Any, path: tuple[Any, ...], problem: str) -> ComponentError:
    return ComponentError(f"component {'.'.join(map(str, path)) or 'of the datapoint'} is {problem}")
