"""The records of an LMDB file as a sequence: determines the keys and reads the records."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from ..._errors import ArgumentError, FormatError, extra
from ...storage import list_to_pickle, printable
from .._record_flow import Records
from ._lmdb_file import data_file, open_environment, read_snapshot, reading

__all__ = ["KEYS_KEY", "FormattedKeys", "LMDBRecords"]

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
            from ..encoding import decode_stored
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
