"""Writes arrays to a NumPy archive, with any names."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._atomic_write import atomic_write

__all__ = ["write_archive"]


def write_archive(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], durable: bool = True) -> None:
    """Writes a `.npz` archive atomically, replacing an existing one; `np.load` reads it.

    Types that NumPy does not have, such as bfloat16, become float32.

    Args:
        path: the path of the archive.
        arrays: arrays by name.
        durable: whether the old or new file also survives a crash of the machine; see `atomic_write`.

    Raises:
        TypeError: an array is masked or contains Python objects, such as text.
        OSError: the file cannot be written; an existing file is unchanged.
    """
    objects = sorted(
        name
        for name, array in arrays.items()
        if array.dtype.hasobject or isinstance(array, np.ma.MaskedArray)
    )
    if objects:
        raise TypeError(
            "A NumPy archive stores plain arrays; received masked arrays, or arrays of objects or text: "
            f"{', '.join(objects)}. Leave them out."
        )
    with atomic_write(path, durable=durable) as aside:
        _write(aside, arrays)


def _write(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    # Not with np.savez, which takes names as keyword arguments: a variable may be called "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            # NumPy cannot read dtypes of other packages without these packages.
            kept = array.astype(np.float32) if array.dtype.isbuiltin == 2 else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, kept, allow_pickle=False)
