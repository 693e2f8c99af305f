"""Reads safetensors files: a JSON header with names, types and offsets, and the bytes of the arrays.

Source: the format's specification, https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
from operator import index
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .._errors import CheckpointError

__all__ = ["read_safetensors"]

_DTYPES: dict[str, Any] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
    "C64": "<c8",
}
_LONGEST_HEADER = 100_000_000  # bytes, as in the specification


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a safetensors file.

    Raises:
        CheckpointError: the file cannot be read, or violates its format.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise CheckpointError(f"{path} is truncated, or is not a safetensors file.")
            header = json.loads(file.read(length))
            data = np.fromfile(file, np.uint8)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as a safetensors file: {error}.") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is not a safetensors file: its header is not a JSON object.")
    header.pop("__metadata__", None)
    arrays, end = {}, 0
    try:
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
            shape, (begin, stop) = list(map(index, entry["shape"])), map(index, entry["data_offsets"])
            dtype = _DTYPES.get(entry["dtype"])
            if dtype is None:
                raise CheckpointError(
                    f"{path}: the array {name!r} has the type {entry['dtype']!r}, which NumPy lacks. "
                    f"Supported types: {', '.join(_DTYPES)}."
                )
            expected = math.prod(shape) * np.dtype(dtype).itemsize
            if begin != end or stop - begin != expected or stop > len(data) or min(shape, default=0) < 0:
                raise CheckpointError(
                    f"{path}: the array {name!r} of shape {shape} has the bytes {begin} to {stop}; expected "
                    f"{expected} bytes from {end} on, of {len(data)}. The file is damaged."
                )
            arrays[name], end = data[begin:stop].view(dtype).reshape(shape), stop
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: its header is invalid.") from error
    if end != len(data):
        raise CheckpointError(f"{path} has {len(data) - end} bytes that belong to no array. It is damaged.")
    return arrays
