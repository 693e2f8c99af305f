"""`Segments`: rows of a memory in files of equal length, sealed when full, mapped as one ring."""

from __future__ import annotations

import ctypes
import errno
import itertools
import logging
import mmap
import os
import re
import threading
import weakref
import zlib
from collections.abc import Mapping
from math import gcd, lcm
from pathlib import Path
from typing import Any, final

import numpy as np

from .._errors import ArgumentError
from ..storage._atomic_file import NO_LINK, NOT_INHERITED, lock_file
from ._array_specs import ArraySpec

__all__ = ["CONTENTS", "LOCK", "MappedRing", "Segment", "Segments", "checksum", "least_rows", "segment_name"]

_log = logging.getLogger("towerpack_dataflow")

CONTENTS = "memory.json"
"""The file that identifies the directory of a saved memory."""
LOCK = ".lock"
"""The file that identifies the directory of an active memory."""
_SEGMENT = re.compile(r"segment-[0-9]{8,}\.bin")


# The errors for another file system, a file system without hard links, and a file with too many.
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


def segment_name(number: int) -> str:
    """Returns the file name of a segment."""
    return f"segment-{number:08d}.bin"


def least_rows(specs: Mapping[str, ArraySpec]) -> int:
    """Returns the smallest number of rows with whole pages in all columns."""
    return lcm(*(mmap.PAGESIZE // gcd(mmap.PAGESIZE, spec.nbytes) for spec in specs.values()))


@final
class Segment:
    """One file, with the columns of its rows in succession.

    Attributes:
        descriptor: descriptor of the file; None in anonymous memory.
        path: path of the file; None likewise.
        checksum: CRC-32 of all its columns; None before it is sealed.
        failure: the error that prevented sealing.
        sealing: the thread that seals it.
    """

    def __init__(self, descriptor: int | None, path: Path | None, checksum: int | None = None) -> None:
        """Stores the file."""
        self.descriptor, self.path, self.checksum = descriptor, path, checksum
        self.failure: OSError | None = None
        self.sealing: threading.Thread | None = None

    def sealed(self) -> bool:
        """Waits for a sealing in progress; tells whether the segment is sealed.

        Raises:
            OSError: the segment could not be flushed to the disk.
        """
        if self.sealing is not None:
            self.sealing.join()
        if self.failure is not None:
            raise self.failure
        return self.checksum is not None


@final
class Segments:
    """Writes rows to the newest segment, and maps the rows of all segments as one array per column.

    A full segment never changes again: in the background it is flushed to the disk, checksummed, and made
    read-only. The segment replaced by a new one is removed.

    Args:
        specs: the columns of a row.
        parts: number of segments to keep.
        rows: rows of each segment, a multiple of `least_rows(specs)`.
        directory: directory of the files, which are removed with this object; None for anonymous memory.

    Attributes:
        columns: arrays of `parts * rows` rows by name. Only written rows may be accessed.
        files: the segments kept, by number.

    Raises:
        ArgumentError: `directory` has files of an active memory, of a saved one, or of another program.
    """

    def __init__(self, specs: Mapping[str, ArraySpec], parts: int, rows: int, directory: Path | None) -> None:
        """Reserves room for all segments; creates none."""
        self._specs, self._parts, self._rows, self._directory = dict(specs), parts, rows, directory
        self._rings = {name: MappedRing(parts, rows * spec.nbytes) for name, spec in specs.items()}
        self.columns = {name: self._rings[name].rows(*spec) for name, spec in specs.items()}
        self.files: dict[int, Segment] = {}
        self._copies = False
        lock = None if directory is None else _claim(directory)
        self._finalizer = weakref.finalize(self, _remove_all, self.files, lock, os.getpid())

    def close(self) -> None:
        """Removes all files; the rows must no longer be accessed."""
        self._finalizer()

    def clear(self) -> None:
        """Removes all files, to start over."""
        for segment in self.files.values():
            segment.sealed()
            _remove(segment)
        self.files.clear()

    def write(self, row: int, values: Mapping[str, np.ndarray]) -> None:
        """Writes rows starting at number `row`, directly after the last one; at most the rows of a segment.

        Raises:
            OSError: there is no room for another segment, or an earlier one could not be sealed; nothing was
                written.
        """
        count, done = len(next(iter(values.values()))), 0
        if (last := (row + count - 1) // self._rows) not in self.files:
            self.open(last)
        while done < count:
            number, begin = divmod(row + done, self._rows)
            part = min(count - done, self._rows - begin)
            slot = number % self._parts * self._rows + begin
            for name, array in values.items():
                self.columns[name][slot : slot + part] = array[done : done + part]
            done += part
            if begin + part == self._rows:
                self.seal(number)

    def open(self, number: int) -> None:
        """Creates a segment in place of the oldest one."""
        oldest = [old for old in self.files if old <= number - self._parts]
        for old in oldest:
            self.files[old].sealed()
        descriptor, path = self._new_file(number)
        for old in oldest:
            _remove(self.files.pop(old))
        self.show(number, Segment(descriptor, path))

    def show(self, number: int, segment: Segment) -> None:
        """Maps a segment, sealed or not."""
        self.files[number] = segment
        for ring, offset in zip(self._rings.values(), self.offsets):
            if segment.descriptor is None:
                ring.hold(number % self._parts)
                continue
            ring.show(number % self._parts, segment.descriptor, offset, segment.checksum is None)

    def parts_of(self, number: int, rows: int) -> list[np.ndarray]:
        """Returns the first rows of a segment as bytes, one array per column."""
        begin = number % self._parts * self._rows
        return [column[begin : begin + rows].reshape(-1).view(np.uint8) for column in self.columns.values()]

    def parts_in(self, file: np.ndarray, rows: int) -> list[np.ndarray]:
        """Returns the first rows of a saved file as bytes, one array per column."""
        sizes = (rows * spec.nbytes for spec in self._specs.values())
        return [file[offset : offset + size] for offset, size in zip(self.offsets, sizes)]

    @property
    def offsets(self) -> list[int]:
        """The offset of each column in a file."""
        sizes = [self._rows * spec.nbytes for spec in self._specs.values()]
        return [0, *itertools.accumulate(sizes[:-1])]

    @property
    def file_size(self) -> int:
        """The bytes of each file."""
        return self._rows * sum(spec.nbytes for spec in self._specs.values())

    def path_of(self, number: int) -> Path | None:
        """Returns the path of a segment's file; None in anonymous memory."""
        return None if self._directory is None else self._directory / segment_name(number)

    def linked(self, source: Path, target: Path) -> bool:
        """Links a sealed file to a second name; returns False, and logs it once, if that is impossible.

        Raises:
            OSError: the link fails for another reason than the kind of file system.
        """
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            if not self._copies:
                _log.warning(
                    "%s cannot be linked to %s (%s), so segments are copied, which takes time and space. "
                    "Put the directory of the memory on the file system of the checkpoints.",
                    source,
                    target.parent,
                    error.strerror,
                )
            self._copies = True
            return False
        return True

    def _new_file(self, number: int) -> tuple[int | None, Path | None]:
        path = self.path_of(number)
        if path is None:
            return None, None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NOT_INHERITED, 0o644)
        try:
            # Otherwise a write through the mapping would kill the process with SIGBUS on a full disk.
            os.posix_fallocate(descriptor, 0, self.file_size)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        return descriptor, path

    def seal(self, number: int) -> None:
        """Starts to seal a full segment in the background."""
        segment = self.files[number]
        # The thread holds this object, which must not end, and close the file, before the thread does.
        segment.sealing = threading.Thread(
            target=self._seal, args=(number, segment), name=f"seal-{number}", daemon=True
        )
        segment.sealing.start()

    def _seal(self, number: int, segment: Segment) -> None:
        try:
            for ring in self._rings.values():
                ring.protect(number % self._parts)
            if segment.descriptor is not None:
                os.fsync(segment.descriptor)
                os.fchmod(segment.descriptor, 0o444)
            segment.checksum = checksum(self.parts_of(number, self._rows))
        except OSError as error:
            segment.failure = error


def checksum(parts: list[np.ndarray]) -> int:
    """Returns the CRC-32 of the bytes of successive arrays."""
    value = 0
    for part in parts:
        value = zlib.crc32(part.data, value)
    return value


def _claim(directory: Path) -> int:
    """Locks a directory for one memory, and removes leftover segments of a killed process."""
    directory.mkdir(parents=True, exist_ok=True)
    _check_is_free(directory)
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | NO_LINK | NOT_INHERITED, 0o644)
    try:
        lock_file(lock, wait=False)
    except BlockingIOError as error:
        os.close(lock)
        raise ArgumentError(
            f"directory is for the files of one memory; received {str(directory)!r}, which another memory "
            "is using. Use a separate directory for each memory, or close() the other one"
        ) from error
    for name in _segment_names(directory):
        (directory / name).unlink()
    return lock


def _check_is_free(directory: Path) -> None:
    """Checks that the directory has no files of a saved memory or of another program."""
    if (directory / CONTENTS).exists():
        raise ArgumentError(
            f"directory is for the files of an active memory; received {str(directory)!r}, which contains a "
            f"saved one ({CONTENTS}). Use another directory, and pass this one to load_state_dict()"
        )
    own = (directory / LOCK).exists()
    for name in _segment_names(directory):
        path = directory / name
        if not own or path.is_symlink() or not path.is_file():
            raise ArgumentError(
                f"directory is for the files of one memory; received {str(directory)!r}, which has {name!r}, "
                "a file not made by a memory. Use another directory, or move that file"
            )


def _segment_names(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if _SEGMENT.fullmatch(name)]


def _remove(segment: Segment) -> None:
    if segment.descriptor is not None:
        os.close(segment.descriptor)
    if segment.path is not None:
        segment.path.unlink(missing_ok=True)


def _remove_all(files: dict[int, Segment], lock: int | None, owner: int) -> None:
    if os.getpid() != owner:  # a forked process has a copy of the object, but does not own the files
        return
    for segment in files.values():
        # A thread that has just sealed a segment may have held the last reference.
        if segment.sealing not in (None, threading.current_thread()):
            segment.sealing.join()
        _remove(segment)
    files.clear()
    if lock is not None:
        os.close(lock)


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
