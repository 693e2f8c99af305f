"""`DiskCache`: stores datapoints on a disk, for later passes and later runs, and its files."""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import CacheError
from ...storage._atomic_file import NO_LINK, lock_file, read_at
from ._memory_cache import MISSING

__all__ = ["MARK", "ROW", "DiskCache", "Index", "check_directory", "read_index", "write_index"]

_log = logging.getLogger("towerpack_dataflow")

_UNKNOWN, _NO_ROOM = -1, -2  # sizes of rows
_FIRST_ROWS = 1024


@final
class DiskCache:
    """Stores the datapoints of a `CacheData` in a directory, for later passes and later runs.

    The first process writes; other processes read once it has finished, and make their own datapoints until
    then. A run that ends before a pass is complete leaves no usable cache: the next run starts over. A record
    with a wrong checksum is made again.

    A disk that is full, read-only or failing causes a warning: datapoints that cannot be written are made
    again in each pass, and later runs start over. A directory with foreign files of the same names is
    refused.

    Datapoints are pickled, so use only directories that nobody else can write to. The directory records its
    flow: kinds, lengths and seed. Functions are not compared; after a change of a function, use another
    directory.

    Args:
        directory: the directory of the files; created if missing.
        max_bytes: limit of the size on disk; unlimited by default. Datapoints beyond it are made again.

    Raises:
        ArgumentError: `max_bytes` is not an integer above 0.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import CacheData
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     first = list(CacheData(range(3), storage=DiskCache(directory)))
        ...     again = list(CacheData(range(3), storage=DiskCache(directory)))
        >>> first == again
        True
    """

    def __init__(self, directory: str | os.PathLike[str], max_bytes: int | None = None) -> None:
        """Stores the arguments; opens nothing."""
        self.directory = Path(directory)
        self.max_bytes = None if max_bytes is None else arguments.count("max_bytes", max_bytes)
        self._identity: Mapping[str, Any] | None = None
        self._rows = np.empty(0, ROW)
        self._length: int | None = None
        self._data: int | None = None
        self._lock_file: int | None = None
        self._end = 0
        self._full = self._failed = self._warned = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    def open(self, identity: Mapping[str, Any]) -> None:
        """Opens a complete cache for reading, or starts one unless another process does.

        Raises:
            CacheError: the directory holds the cache of another flow, of another format, or other files.
            OSError: `directory` is not a directory.
        """
        with self._lock:
            if self._process != os.getpid():  # forked: open files belong to the parent
                self._data = self._lock_file = self._length = None
                self._rows, self._process = np.empty(0, ROW), os.getpid()
            identity = json.loads(json.dumps(identity))
            if self._data is None or identity != self._identity:
                self._close()
                self._identity = identity
                try:
                    self._begin()
                except (FileExistsError, NotADirectoryError):
                    raise
                except OSError as error:
                    self._close()
                    self._give_up(error)

    def length(self) -> int | None:
        """Returns the number of datapoints of the pass, if one was finished."""
        return self._length

    def get(self, index: int) -> Any:
        """Reads a datapoint; returns `MISSING` if it is absent or damaged."""
        if self._data is None or index >= len(self._rows) or self._rows[index]["size"] < 0:
            return MISSING
        offset, size, checksum = self._rows[index].tolist()
        record = read_at(self._data, size, offset)
        if len(record) != size or zlib.crc32(record) != checksum:
            _log.warning("%s: datapoint %d is damaged; making it again", self.directory / "data", index)
            return MISSING
        return pickle.loads(record)

    def put(self, index: int, datapoint: Any) -> None:
        """Writes a datapoint if this process is the writer and there is room."""
        if not self._writes():
            return
        record = pickle.dumps(datapoint, protocol=5)
        with self._lock:
            self._make_room(index)
            # Once the limit is reached, nothing more is written: a stream is then made again once, not in
            # many parts.
            self._full = self._full or self._end + len(record) > (self.max_bytes or sys.maxsize)
            if self._full:
                self._rows[index] = 0, _NO_ROOM, 0
                return
            try:
                self._write(record)
            except OSError as error:
                self._full = True
                self._rows[index] = 0, _NO_ROOM, 0
                self._give_up(error)
                return
            self._rows[index] = self._end, len(record), zlib.crc32(record)
            self._end += len(record)

    def _write(self, record: bytes) -> None:
        assert self._data is not None
        written = 0
        while written < len(record):
            written += os.pwrite(self._data, record[written:], self._end + written)

    def finish(self, count: int) -> None:
        """Writes the index if the pass is complete; other runs then use the cache."""
        with self._lock:
            self._length = count
            rows = self._rows[:count]
            if not self._writes() or len(rows) < count or (rows["size"] == _UNKNOWN).any() or self._failed:
                return
            assert self._data is not None and self._identity is not None
            try:
                os.fsync(self._data)
                write_index(self.directory / "index", Index(self._identity, rows))
            except OSError as error:
                self._give_up(error)
            else:
                self._unlock()

    def _give_up(self, error: OSError) -> None:
        """Logs once why the cache is not written; later runs find no index and start over."""
        self._failed = True
        if not self._warned:
            self._warned = True
            _log.warning(
                "The cache in %s cannot be written (%s): missing datapoints are made in each pass. Free "
                "space, fix its permissions, or use another directory.",
                self.directory,
                error.strerror or error,
            )

    def _writes(self) -> bool:
        """Tells whether this process is the writer, rather than a fork of it."""
        return self._lock_file is not None and self._process == os.getpid()

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _begin(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._read_finished():
            return
        check_directory(self.directory)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
        try:
            lock_file(lock, wait=False)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
            _log.info("%s: another process is writing this cache", self.directory)
            return
        if self._read_finished():  # by a process that has just finished
            os.close(lock)
            return
        self._lock_file = lock
        os.pwrite(lock, MARK, 0)
        (self.directory / "index.new").unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | NO_LINK
        self._data = os.open(self.directory / "data", flags, 0o600)
        self._rows, self._end, self._length = np.empty(0, ROW), 0, None
        self._full = self._failed = False

    def _read_finished(self) -> bool:
        index = read_index(self.directory / "index")
        if index is None:
            return False
        if index.identity != self._identity:
            raise CacheError(
                f"{self.directory} holds the cache of another flow or seed: {index.identity}; this one is "
                f"{self._identity}. Use another directory, or remove this one"
            )
        try:
            self._data = os.open(self.directory / "data", os.O_RDONLY)
        except FileNotFoundError:
            _log.warning("%s: the data file is missing; rebuilding the cache", self.directory)
            return False
        self._rows, self._length = index.rows, len(index.rows)
        return True

    def _make_room(self, index: int) -> None:
        if index >= len(self._rows):
            rows = np.zeros(max(_FIRST_ROWS, 2 * len(self._rows), index + 1), ROW)
            rows["size"] = _UNKNOWN
            rows[: len(self._rows)] = self._rows
            self._rows = rows

    def _close(self) -> None:
        self._unlock()
        if self._data is not None:
            os.close(self._data)
        self._data = self._length = None
        self._rows = np.empty(0, ROW)

    def __del__(self) -> None:
        if getattr(self, "_process", None) == os.getpid():
            self._close()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, such as that of a worker, opens the directory again."""
        return {"directory": self.directory, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the arguments; opens nothing."""
        self.__init__(**state)

    def __repr__(self) -> str:
        limit = "" if self.max_bytes is None else f", max_bytes={self.max_bytes}"
        return f"DiskCache({str(self.directory)!r}{limit})"


_FORMAT, _VERSION = "towerpack-cache", 1
_NAMES = ("data", "index", "index.new")
_RECORD = b"\x80\x05"  # the first bytes of each record: a pickle of protocol 5

MARK = b"towerpack-cache\n"
"""The content of the file `lock`, which identifies the directory of a cache."""

ROW = np.dtype([("offset", "<i8"), ("size", "<i8"), ("crc32", "<u4")])
"""Offset, size and checksum of a record; a negative size marks a datapoint that is not stored."""


class Index(NamedTuple):
    """The content of an index file.

    Attributes:
        identity: identifies the flow and the pass of the datapoints.
        rows: one for each datapoint of that pass.
    """

    identity: Mapping[str, Any]
    rows: np.ndarray


def read_index(path: Path) -> Index | None:
    """Reads an index; returns `None` if it is missing or damaged, and logs damage.

    Raises:
        CacheError: the index has a version that this release does not read.
        OSError: the file exists but cannot be read.
    """
    try:
        header, _, table = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    try:
        head = json.loads(header)
        found = head["format"], head["version"]
        rows = np.frombuffer(table, ROW)
        whole = len(rows) == head["count"] and zlib.crc32(table) == head["crc32"]
        identity = head["identity"]
    except (ValueError, KeyError, TypeError):
        found, whole = (_FORMAT, _VERSION), False
    if found != (_FORMAT, _VERSION):
        raise CacheError(
            f"{path} has format {found[0]!r}, version {found[1]!r}; this release reads {_FORMAT!r}, version "
            f"{_VERSION}. Use another directory, or remove this one"
        )
    if not whole:
        _log.warning("%s is damaged; rebuilding the cache", path)
        return None
    return Index(identity, rows)


def check_directory(directory: Path) -> None:
    """Checks that files to be replaced were made by a cache.

    Raises:
        CacheError: one was made by another program, or is a symbolic link; nothing is changed.
        OSError: a file cannot be read.
    """
    there = [name for name in ("lock", *_NAMES) if os.path.lexists(directory / name)]
    lock = (directory / "lock").read_bytes() if "lock" in there else None
    made = lock == MARK or (lock == b"" and _has_records(directory / "data"))  # earlier releases: no mark
    foreign = [name for name in there if (directory / name).is_symlink() or not made]
    if foreign and (lock != b"" or there != ["lock"]):
        raise CacheError(
            f"{directory} is not the directory of a cache: it contains {foreign[0]!r}, which no cache has "
            "made; nothing was changed. Use another directory"
        )


def _has_records(path: Path) -> bool:
    """Returns whether a file may be the records of a cache of an earlier release."""
    if not path.is_file():
        return not path.exists()
    with path.open("rb") as file:
        return file.read(len(_RECORD)) in (b"", _RECORD)


def write_index(path: Path, index: Index) -> None:
    """Writes an index atomically.

    Raises:
        OSError: it cannot be written.
    """
    table = index.rows.tobytes()
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": index.identity,
        "count": len(index.rows),
        "crc32": zlib.crc32(table),
    }
    unfinished = path.with_suffix(".new")
    try:
        with unfinished.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + table)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
