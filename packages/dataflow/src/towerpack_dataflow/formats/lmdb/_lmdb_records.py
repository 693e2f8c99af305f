"""The records of an LMDB file as a sequence: determines the keys and reads the records."""

from __future__ import annotations

import errno
import logging
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, final
from weakref import WeakValueDictionary

from ..._errors import ArgumentError, FormatError, extra
from ...storage import list_to_pickle, local_path, printable
from .._record_flow import Records

__all__ = [
    "KEYS_KEY",
    "FormattedKeys",
    "LMDBRecords",
    "Snapshot",
    "data_file",
    "open_environment",
    "read_snapshot",
    "reading",
    "writing",
]

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


_log = logging.getLogger("towerpack_dataflow")

KEYS_KEY = b"__keys__"
"""The record with the list of keys; LMDB sorts keys by their bytes."""


@final
class FormattedKeys(Sequence[bytes]):
    """Keys computed from numbers, such as `b"00000042"`; they need no memory.

    Args:
        form: a format string with one field, such as `"{:08d}"`.
        count: number of keys.
    """

    def __init__(self, form: str, count: int) -> None:
        """Tries the first key."""
        try:
            form.format(0)
        except (ValueError, LookupError, TypeError) as error:
            raise ArgumentError(
                f"keys is a format string with a field for a number, such as '{{:08d}}'; received {form!r}: "
                f"{error}"
            ) from error
        self.form = form
        self._count = count

    def __len__(self) -> int:
        """Returns the number of keys."""
        return self._count

    def __getitem__(self, index: Any) -> Any:
        """Returns a key."""
        return self.form.format(index).encode()


@final
class LMDBRecords(Records):
    """Records of an LMDB file, decoded at each read.

    Args:
        path: a file, or a folder with `data.mdb`.
        keys: as in `LMDBData`.
        decode: creates the datapoint from a key and a view of a value, which it must not change.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keys: Iterable[bytes | str] | str | None,
        decode: Callable[[bytes, memoryview], Any],
    ) -> None:
        """Reads the keys and closes the file."""
        self._path = data_file(path)
        self._expected = read_snapshot(self._path)
        self._decode = decode
        self._thread = threading.local()
        self._keys = self._found_keys(keys)
        self._thread = threading.local()
        self.__qualname__ = f"{printable(os.fspath(path))} of {len(self._keys)} records"

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._keys)

    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yields records.

        Raises:
            FormatError: there is no record with the key, the decoder rejects its content, or the file is
                damaged.
        """
        decode, thread = self._decode, self._thread
        for key in self._keys_of(indices):
            try:
                # Looked up for each record, since another thread may continue: a transaction belongs to one
                # thread.
                value = (thread.get if hasattr(thread, "get") else self._opened().get)(key)
                datapoint = None if value is None else decode(key, value)
            except Exception as error:
                if not isinstance(error, (FormatError, _lmdb_error())):
                    raise
                raise FormatError(f"{self._path}, record {key!r}: {error}") from error
            if value is None:
                raise FormatError(
                    f"{self._path}, record {key!r}: the record does not exist; pass the keys of the file"
                )
            yield datapoint

    def _keys_of(self, indices: Sequence[int]) -> list[bytes]:
        keys = self._keys
        if isinstance(keys, FormattedKeys):
            form = keys.form.format
            return [form(index).encode() for index in indices]
        return [keys[index] for index in indices]

    def _opened(self) -> Any:
        """Begins a transaction of this thread with the current content of the file."""
        environment = open_environment(self._path, self._expected)
        transaction = self._thread.transaction = environment.begin(buffers=True)
        self._thread.get = transaction.get
        return transaction

    def _found_keys(self, keys: Iterable[bytes | str] | str | None) -> Sequence[bytes]:
        if keys is not None and not isinstance(keys, str):
            return [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        with reading(f"{self._path}, record {KEYS_KEY!r}"):
            listed = self._opened().get(KEYS_KEY)
        if isinstance(keys, str):
            return FormattedKeys(keys, self._expected.entries - (listed is not None))
        return self._scanned() if listed is None else self._listed(listed)

    def _listed(self, value: memoryview) -> Sequence[bytes]:
        """Decodes the list of keys in the file."""
        with extra("lmdb", "reading the keys of LMDB files"):
            from ..encoding._stored_datapoints import decode_stored
        try:
            listed = decode_stored(value)
        except FormatError as error:
            raise FormatError(f"{self._path}, record {KEYS_KEY!r}: {error}") from error
        if isinstance(listed, dict) and listed.keys() >= {"keys", "count"}:
            form, count = listed["keys"], listed["count"]
            if isinstance(form, str) and type(count) is int and 0 <= count < self._expected.entries:
                return FormattedKeys(form, count)
        elif isinstance(listed, list) and all(isinstance(key, (bytes, str)) for key in listed):
            return [key.encode() if isinstance(key, str) else key for key in listed]
        raise FormatError(
            f"{self._path}, record {KEYS_KEY!r}: it holds a {type(listed).__name__}, not a list of keys "
            f"of {self._expected.entries} records; pass keys=..."
        )

    def _scanned(self) -> Sequence[bytes]:
        _log.info("%s has no list of keys; reading all of them: pass keys=... to avoid this", self._path)
        with reading(f"{self._path}, its keys"):
            return [bytes(key) for key in self._opened().cursor().iternext(keys=True, values=False)]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the open file; packs a long list of keys for workers."""
        keys = self._keys if isinstance(self._keys, FormattedKeys) else list_to_pickle(self._keys)
        return {**vars(self), "_thread": None, "_keys": keys}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the attributes of the pickled object."""
        vars(self).update(state, _thread=threading.local())


def _lmdb_error() -> type[Exception]:
    """Returns the base class of LMDB's errors, such as that of a damaged page."""
    import lmdb

    found: type[Exception] = lmdb.Error
    return found
