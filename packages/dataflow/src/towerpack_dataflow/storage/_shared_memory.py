"""Shared memory without a name, freed with its last descriptor and mapping, even after a kill."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any, final

import numpy as np

__all__ = ["ALIGNMENT", "aligned_memory", "aligned_size", "anonymous_file", "mapped"]

ALIGNMENT = 64  # a cache line; TensorFlow and BLAS use aligned arrays without a copy


def aligned_size(size: int) -> int:
    """Rounds a number of bytes up to whole cache lines.

    Example:
        >>> aligned_size(1), aligned_size(64)
        (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_memory(size: int) -> np.ndarray:
    """Allocates `size` bytes, with arbitrary contents, aligned to a cache line.

    NumPy aligns allocations for its own types only, so the memory is a part of a slightly larger array.
    """
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[begin : begin + size]


def anonymous_file(size: int) -> int:
    """Creates shared memory and returns its descriptor.

    Where `memfd_create` exists, nothing in `/dev/shm` is used, so a container's limit of 64 MB there does not
    matter, and a killed process leaves nothing behind.
    """
    descriptor = os.memfd_create("towerpack-slot") if hasattr(os, "memfd_create") else _unlinked_file()
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _unlinked_file() -> int:
    # multiprocessing.shared_memory is built on this too; its names outlive a crash.
    import _posixshmem  # type: ignore[import-not-found]  # noqa: PLC2701 (no public equivalent)

    name = f"/towerpack-{os.getpid()}-{os.urandom(6).hex()}"
    descriptor: int = _posixshmem.shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
    _posixshmem.shm_unlink(name)
    return descriptor


def mapped(descriptor: int, size: int, private: bool = False) -> np.ndarray:
    """Maps the whole memory during the lifetime of the array.

    Args:
        descriptor: descriptor of the memory; it may be closed afterwards.
        size: size in bytes.
        private: whether writes stay in this process.

    Raises:
        OSError: the system cannot map the memory.
    """
    return np.asarray(_Mapping(descriptor, size, mmap.MAP_PRIVATE if private else mmap.MAP_SHARED))


@functools.cache
def _c_library() -> ctypes.CDLL:
    # Loaded on use: Windows has none by this name.
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@final
class _Mapping:
    """A mapped piece of memory.

    Up to Python 3.12 `mmap` of the standard library keeps a duplicate of the descriptor. A queue full of
    views would use up the descriptors of a process.
    """

    def __init__(self, descriptor: int, size: int, flags: int) -> None:
        readable = mmap.PROT_READ | mmap.PROT_WRITE
        self._size = 0
        self._libc = _c_library()
        self._address = self._libc.mmap(None, size, readable, flags, descriptor, 0)
        if self._address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot map {size} bytes of shared memory: {os.strerror(number)}")
        self._size = size

    @property
    def __array_interface__(self) -> dict[str, Any]:
        data = (self._address, False)
        return {"shape": (self._size,), "typestr": "|u1", "data": data, "version": 3}

    def __del__(self) -> None:
        if self._size:
            self._libc.munmap(self._address, self._size)
