"""`MappedRing`: adjacent mappings of files or memory, so that the rows of all parts form one array."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, final

import numpy as np

__all__ = ["MappedRing"]

_MAP_FIXED = 0x10  # a Linux constant missing in the module mmap
_NOTHING = 0  # PROT_NONE


@final
class MappedRing:
    """A range of addresses; each part maps a separate file or memory.

    One `numpy.take` then gathers rows of all parts, without a look-up of the part of each row. An unmapped
    part must not be accessed.

    Args:
        parts: number of parts.
        size: bytes of each part; a multiple of the page size.
    """

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    _libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def __init__(self, parts: int, size: int) -> None:
        """Reserves addresses without memory."""
        self._size, self._total = size, 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._address = self._map(None, parts * size, _NOTHING, flags, -1, 0)
        self._total = parts * size

    def show(self, part: int, descriptor: int, offset: int, writable: bool) -> None:
        """Maps a file from `offset` on into a part, in place of its earlier content.

        Raises:
            OSError: the system cannot map the file.
        """
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else _NOTHING)
        self._map(self._at(part), self._size, access, mmap.MAP_SHARED | _MAP_FIXED, descriptor, offset)

    def hold(self, part: int) -> None:
        """Gives a part separate memory with zeros, in place of its earlier content.

        Raises:
            OSError: there is not enough memory.
        """
        access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._map(self._at(part), self._size, access, flags | _MAP_FIXED, -1, 0)
        # Rows are read in random order: with small pages, address translation takes as long as reading. A
        # system without large ones rejects the request, which only costs speed.
        self._libc.madvise(self._at(part), self._size, mmap.MADV_HUGEPAGE)

    def protect(self, part: int) -> None:
        """Makes a part read-only.

        Raises:
            OSError: the system rejects the request.
        """
        if self._libc.mprotect(self._at(part), self._size, mmap.PROT_READ):
            raise _failure("cannot make a segment read-only")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        data = (self._address, False)
        return {"shape": (self._total,), "typestr": "|u1", "data": data, "version": 3}

    def rows(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Returns all parts as one array of rows; it keeps the ring alive."""
        return np.asarray(self).view(dtype).reshape(-1, *shape)

    def _at(self, part: int) -> int:
        return self._address + part * self._size

    def _map(
        self, address: int | None, size: int, access: int, flags: int, descriptor: int, offset: int
    ) -> int:
        found = self._libc.mmap(address, size, access, flags, descriptor, offset)
        if found == ctypes.c_void_p(-1).value:
            raise _failure(f"cannot map {size} bytes of a memory")
        return int(found)

    def __del__(self) -> None:
        if self._total:
            self._libc.munmap(self._address, self._total)


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
