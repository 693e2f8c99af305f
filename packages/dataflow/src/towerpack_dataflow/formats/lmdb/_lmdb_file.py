"""Opening of LMDB files: initial checks, and sharing among the processes and threads of a program."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..._errors import FormatError, extra
from ...storage import local_path

__all__ = ["Snapshot", "data_file", "open_environment", "read_snapshot", "reading", "writing"]

# A meta page: header of 16 bytes, then magic, version, address, size of the map; the two databases within the
# file, of free pages and of records, 48 bytes each; number of the last page, number of the transaction.
_META = struct.Struct("<16x II QQ IHHQQQQQ IHHQQQQQ QQ")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_PAGE_SIZES = {2**power for power in range(8, 17)}

# LMDB refuses to open a file twice in a process, so all flows over one file share its environment, keyed by
# the file's device and inode. A forked process may continue to read with the inherited environment: without a
# lock file, LMDB only reads a mapped file.
_environments: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
_opening = threading.Lock()


class Snapshot(NamedTuple):
    """The content of a file, which tells a copy of a flow whether the file has changed.

    Attributes:
        transaction: number of the last transaction; each change of the file adds one.
        entries: number of records.
    """

    transaction: int
    entries: int


def data_file(path: str | os.PathLike[str]) -> Path:
    """Returns the file with the records: `path`, or `data.mdb` within it."""
    found = Path(local_path(path))
    return found / "data.mdb" if found.is_dir() else found


def read_snapshot(path: Path) -> Snapshot:
    """Checks that LMDB can read a file, which it maps: a missing page would kill the process.

    Raises:
        FormatError: the file is not an LMDB file, has another version, or is truncated.
        OSError: the file is missing or not readable.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = _meta(path, file.read(_META.size))
        page_size = first[4]
        if page_size not in _PAGE_SIZES:
            raise FormatError(f"{path}: an LMDB file has pages of 256 to 65536 bytes; found {page_size}")
        file.seek(page_size)
        second = _meta(path, file.read(_META.size))
    newer = max(first, second, key=lambda meta: meta[-1])
    entries, last_page, transaction = newer[-4], newer[-2], newer[-1]
    if size < (last_page + 1) * page_size:
        raise FormatError(
            f"{path}: the file is truncated: it has {size} bytes, but {last_page + 1} pages of {page_size} "
            "are in use; copy or write it again"
        )
    return Snapshot(transaction, entries)


def _meta(path: Path, raw: bytes) -> tuple[int, ...]:
    if len(raw) < _META.size:
        raise FormatError(
            f"{path}: the file is empty, or truncated within its first two pages; write it again"
        )
    meta: tuple[int, ...] = _META.unpack(raw)
    if meta[0] != _MAGIC:
        raise FormatError(
            f"{path}: not a little-endian LMDB file: magic number {meta[0]:#x}, expected {_MAGIC:#x}"
        )
    if meta[1] != _VERSION:
        raise FormatError(
            f"{path}: the file has version {meta[1]} of LMDB's format, but only version {_VERSION} is "
            "supported; dump and load it with mdb_dump and mdb_load"
        )
    return meta


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises errors of LMDB in the block as errors of this package or of the system.

    Args:
        what: the object being read, such as the path.

    Raises:
        FormatError: the file is damaged.
        ImportError: the package lmdb is missing.
        OSError: the system has denied a resource, such as memory.
    """
    with extra("lmdb", "reading LMDB files"):
        import lmdb

    try:
        yield
    except lmdb.Error as error:
        if (code := getattr(error, "code", 0)) > 0:
            raise OSError(code, os.strerror(code), what) from error
        raise FormatError(f"{what}: LMDB cannot read it: {error}") from error


@contextmanager
def writing(beside: str, target: Path) -> Iterator[None]:
    """Raises errors of LMDB in the block as errors of the system.

    Args:
        beside: the file written by LMDB.
        target: its final name.

    Raises:
        OSError: the disk is full, or another error; the message names `target`.
    """
    import lmdb

    try:
        yield
    except lmdb.Error as error:
        code = getattr(error, "code", errno.EIO)  # missing in old releases
        if code == errno.EIO:  # also after an incomplete write
            code = _refused_write(beside)
        text = os.strerror(code) if code > 0 else f"LMDB cannot write the file: {error}"
        raise OSError(code, text, os.fspath(target)) from error


def _refused_write(path: str) -> int:
    """Returns the error number for a failed extension of a file."""
    try:
        with open(path, "ab") as file:
            file.write(bytes(2**20))
    except OSError as error:
        return error.errno or errno.EIO
    return errno.EIO


def open_environment(path: Path, expected: Snapshot | None = None) -> Any:
    """Opens a file for reading, or returns its existing environment in this process.

    Args:
        path: path of the file itself.
        expected: the content of the file when the flow was created.

    Raises:
        FormatError: the file cannot be read, or differs from `expected`.
        ImportError: the package lmdb is missing.
        OSError: the file is missing or not readable.
    """
    with extra("lmdb", "reading LMDB files"):
        import lmdb
    found = read_snapshot(path)
    if expected is not None and found != expected:
        raise FormatError(
            f"{path}: the file was replaced or changed: the flow was created for {expected.entries} records, "
            f"transaction {expected.transaction}; found {found.entries}, transaction {found.transaction}. "
            "Create the flow again"
        )
    status = path.stat()
    with _opening:
        environment = _environments.get((status.st_dev, status.st_ino))
        if environment is None:
            with reading(str(path)):
                environment = lmdb.open(
                    os.fspath(path),
                    subdir=False,
                    readonly=True,
                    lock=False,
                    readahead=False,
                    max_spare_txns=0,
                )
            _environments[status.st_dev, status.st_ino] = environment
    return environment
