"""Archives of arrays without pickles, for any version of NumPy."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

__all__ = ["write_npz"]


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes an archive that `numpy.load` reads.

    Unlike `numpy.savez` it accepts any name, and refuses objects also before NumPy 2.1, which had no
    `allow_pickle=False` and wrote an array of that name.

    Args:
        file: file open for writing.
        arrays: arrays of any shape, by name.

    Raises:
        ValueError: an array holds Python objects, or is masked.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> write_npz(file, {"file": np.arange(3)})
        >>> file.seek(0)
        0
        >>> np.load(file)["file"]
        array([0, 1, 2])
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            if isinstance(array, np.ma.MaskedArray):
                raise ValueError(f"array {name!r} is masked, and its mask would be lost; fill it first")
            # The archive does not have its size before it is written; it may exceed 4 GB.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
