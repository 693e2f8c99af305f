"""The records of an LMDB file as a sequence: which keys, and reading them."""

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
"""The record that says which keys the others have; LMDB has them in the order of their bytes."""


@final
class FormattedKeys(Sequence[bytes]):
    """Keys that are made of numbers, such as `b"00000042"`; they need no memory.

    Args:
        form: a format string with one field, such as `"{:08d}"`.
        count: how many keys there are.
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
    """Records of an LMDB file, each decoded anew when it is read.

    Args:
        path: a file, or a folder with `data.mdb`.
        keys: as `LMDBData` takes them.
        decode: makes the datapoint of a key and a view of a value, which stays as it is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keys: Iterable[bytes | str] | str | None,
        decode: Callable[[bytes, memoryview], Any],
    ) -> None:
        """Reads the keys, and closes the file again."""
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
            FormatError: there is no record with the key, the decoder finds no datapoint in it, or the file is
                damaged.
        """
        decode, thread = self._decode, self._thread
        for key in self._keys_of(indices):
            try:
                # Looked up for each record, as another thread may take over: no two may use a transaction.
                value = (thread.get if hasattr(thread, "get") else self._opened().get)(key)
                datapoint = None if value is None else decode(key, value)
            except Exception as error:
                if not isinstance(error, (FormatError, _lmdb_error())):
                    raise
                raise FormatError(f"{self._path}, record {key!r}: {error}") from error
            if value is None:
                raise FormatError(
                    f"{self._path}, record {key!r}: it is not there; give the keys that the file has"
                )
            yield datapoint

    def _keys_of(self, indices: Sequence[int]) -> list[bytes]:
        keys = self._keys
        if isinstance(keys, FormattedKeys):
            form = keys.form.format
            return [form(index).encode() for index in indices]
        return [keys[index] for index in indices]

    def _opened(self) -> Any:
        """Begins the transaction of this thread, which sees the file as it is now."""
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
        """Decodes the keys that the file itself lists."""
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
            f"{self._path}, record {KEYS_KEY!r}: it holds a {type(listed).__name__} that lists no keys of "
            f"{self._expected.entries} records; give keys=..."
        )

    def _scanned(self) -> Sequence[bytes]:
        _log.info("%s lists no keys; reading all of them: give keys=... to do without", self._path)
        with reading(f"{self._path}, its keys"):
            return [bytes(key) for key in self._opened().cursor().iternext(keys=True, values=False)]

    def __getstate__(self) -> dict[str, Any]:
        """A copy opens the file when it first reads; a long list of keys is packed for workers."""
        keys = self._keys if isinstance(self._keys, FormattedKeys) else list_to_pickle(self._keys)
        return {**vars(self), "_thread": None, "_keys": keys}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes over what another one knows of the file."""
        vars(self).update(state, _thread=threading.local())


def _lmdb_error() -> type[Exception]:
    """Returns the class of LMDB's errors, such as that of a damaged page."""
    import lmdb

    found: type[Exception] = lmdb.Error
    return found
