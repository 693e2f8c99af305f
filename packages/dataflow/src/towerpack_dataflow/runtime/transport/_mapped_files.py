"""Arrays in mapped files, which a worker maps again instead of receiving a copy."""

from __future__ import annotations

import mmap
import os
from typing import Any, NamedTuple, final

import numpy as np

from ..._errors import PayloadError

__all__ = ["MappedArray", "mapped_array"]

_LEAST = 2**16  # bytes; copying a smaller array is as fast


@final
class MappedArray(NamedTuple):
    """The place of an array in a file; unpickles as the array, with changes private to the process.

    Attributes:
        path: path of the file.
        inode, size: inode and size of the file at the time of pickling.
        offset: offset of the first element, in bytes.
        shape, dtype, strides, writeable: properties of the array.
    """

    path: str
    inode: int
    size: int
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]
    writeable: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickles as the array itself."""
        return _mapped_again, tuple(self)


def mapped_array(array: np.ndarray) -> MappedArray | None:
    """Returns the place of `array` in a file that another process can map; else `None`."""
    if array.nbytes < _LEAST or array.dtype.hasobject:
        return None
    root: Any = array
    while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c":
        return None  # changes in a private mapping are not in the file
    path = os.path.abspath(root.filename)
    try:
        found = os.stat(path)
    except OSError:
        return None
    begin = array.__array_interface__["data"][0] - root.__array_interface__["data"][0] + root.offset
    if os.fspath(path).startswith("/proc/") or found.st_size < root.offset + root.nbytes:
        return None
    place = (path, found.st_ino, found.st_size, begin)
    return MappedArray(*place, array.shape, array.dtype, array.strides, array.flags.writeable)


def _mapped_again(path: str, inode: int, size: int, offset: int, *outline: Any) -> np.ndarray:
    shape, dtype, strides, writeable = outline
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if (found.st_ino, found.st_size) != (inode, size):
            raise PayloadError(
                f"the mapped file {path} of an array was replaced or has changed its length; "
                "do not change the file while workers read it"
            )
        memory = np.memmap(file, np.uint8, "c")
    array: np.ndarray = np.ndarray(shape, dtype, memory.data, offset, strides)
    array.flags.writeable = writeable
    return array
