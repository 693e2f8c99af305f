"""`DiskCache`: datapoints kept on a disk, for later passes and later runs."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import CacheError
from ._cache_file import MARK, ROW, Index, check_directory, read_index, write_index
from ._cache_storage import MISSING

__all__ = ["DiskCache"]

_log = logging.getLogger("towerpack_dataflow")

_UNKNOWN, _NO_ROOM = -1, -2  # sizes of rows
_FIRST_ROWS = 1024


@final
class DiskCache:
    """Keeps the datapoints of a `CacheData` in a directory, for later passes and later runs.

    The first process that comes writes; others read when it is done, and make what they need until then. A
    run that ends before a pass is finished leaves nothing that counts: the next one begins again. A record
    whose checksum is wrong is made again.

    A disk that is full, read-only or out of order is a warning: the datapoints that cannot be written are
    made again in each pass, and later runs begin again. A directory with other files of the same names is
    refused.

    Datapoints are pickled, so use only directories that nobody else can write to. The directory says which
    flow it is of: kinds, lengths and seed. Functions are not compared; after a change of one, take another
    directory.

    Args:
        directory: where the files lie; made if it is not there.
        max_bytes: how much to write at most; without limit if not given. Datapoints beyond it are made anew.

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
        """Opens nothing yet."""
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
        """Opens a finished cache for reading, or begins one, unless another process does.

        Raises:
            CacheError: the directory holds the cache of another flow, of another format, or other files.
            OSError: the directory is no directory.
        """
        with self._lock:
            if self._process != os.getpid():  # forked: what is open belongs to the parent
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
        """Reads a datapoint; returns `MISSING` if it is not there, or damaged."""
        if self._data is None or index >= len(self._rows) or self._rows[index]["size"] < 0:
            return MISSING
        offset, size, checksum = self._rows[index].tolist()
        record = os.pread(self._data, size, offset)
        if len(record) != size or zlib.crc32(record) != checksum:
            _log.warning("%s: datapoint %d is damaged, and made again", self.directory / "data", index)
            return MISSING
        return pickle.loads(record)

    def put(self, index: int, datapoint: Any) -> None:
        """Writes a datapoint, if this process is the one that writes, and there is room for it."""
        if not self._writes():
            return
        record = pickle.dumps(datapoint, protocol=5)
        with self._lock:
            self._make_room(index)
            # From the first one without room on, none is written: a stream is then made anew once, not in
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
        """Writes the index if all datapoints were seen, by which other runs know that the cache is whole."""
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
        """Says once why the cache is not written; later runs find no index, and begin again."""
        self._failed = True
        if not self._warned:
            self._warned = True
            _log.warning(
                "The cache in %s cannot be written (%s): what is not in it is made again in each pass. Free "
                "space, fix its permissions, or take another directory.",
                self.directory,
                error.strerror or error,
            )

    def _writes(self) -> bool:
        """Tells whether this process writes, and not one that it was forked from."""
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
        lock_file = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock_file)
            if not isinstance(error, BlockingIOError):
                raise
            _log.info("%s: another process writes this cache", self.directory)
            return
        if self._read_finished():  # by a process that has ended in between
            os.close(lock_file)
            return
        self._lock_file = lock_file
        os.pwrite(lock_file, MARK, 0)
        (self.directory / "index.new").unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self._data = os.open(self.directory / "data", flags, 0o600)
        self._rows, self._end, self._length = np.empty(0, ROW), 0, None
        self._full = self._failed = False

    def _read_finished(self) -> bool:
        index = read_index(self.directory / "index")
        if index is None:
            return False
        if index.identity != self._identity:
            raise CacheError(
                f"{self.directory} holds the cache of another flow or seed: {index.identity}, and this one "
                f"is {self._identity}. Take another directory, or remove this one"
            )
        try:
            self._data = os.open(self.directory / "data", os.O_RDONLY)
        except FileNotFoundError:
            _log.warning("%s: the data are gone; the cache is made again", self.directory)
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
        """A copy, such as that of a worker, opens the directory by itself."""
        return {"directory": self.directory, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Opens nothing yet."""
        self.__init__(**state)

    def __repr__(self) -> str:
        limit = "" if self.max_bytes is None else f", max_bytes={self.max_bytes}"
        return f"DiskCache({str(self.directory)!r}{limit})"
