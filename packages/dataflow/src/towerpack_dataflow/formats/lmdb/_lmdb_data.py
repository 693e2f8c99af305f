"""`LMDBData`: the records of an LMDB file; `LMDBDataDecoder`: decodes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, final

from ..._errors import ArgumentTypeError
from ...operators._map_data import MapData
from .._record_flow import RecordFlow
from ._lmdb_records import LMDBRecords

__all__ = ["LMDBData", "LMDBDataDecoder"]


@final
class LMDBData(RecordFlow):
    """Yields `[key, value]`, both bytes, of an LMDB file; addressable.

    Each process and each thread reads in a separate transaction, which begins at the first read. The file is
    not locked: do not write to it meanwhile. If the file was replaced or changed since the flow was created,
    opening it in a process raises an error.

    Args:
        lmdb_path: a file, or a folder that contains `data.mdb`.
        shuffle: whether each epoch has a different order; otherwise records are in the order of the keys.
        keys: a list of keys, or a format string such as `"{:08d}"` for numbers from 0. By default, the keys
            are listed in the record `__keys__`, as written by `LMDBSerializer` and Tensorpack; if it is
            missing, all keys are read, which is slow.

    Raises:
        ArgumentError: `keys` is a string that does not format numbers.
        FormatError: the file is not an LMDB file, is truncated, has another version, or its list of keys is
            unreadable.
        ImportError: the extra `[lmdb]` is missing.
        OSError: the file is missing or not readable.
    """

    def __init__(
        self,
        lmdb_path: str | os.PathLike[str],
        shuffle: bool = True,
        keys: Iterable[bytes | str] | str | None = None,
    ) -> None:
        """Reads the keys."""
        super().__init__(LMDBRecords(lmdb_path, keys, _as_bytes), shuffle)
        self._lmdb_path = self._lst


@final
class LMDBDataDecoder(MapData):
    """Yields the result of a function of each key and value; addressable if `MapData` would be.

    Args:
        lmdb_data: a flow of `[key, value]`.
        decoder: called with key and value; `None` drops the datapoint.

    Raises:
        ArgumentTypeError: `decoder` cannot be called.
    """

    def __init__(self, lmdb_data: Any, decoder: Callable[[bytes, bytes], Any]) -> None:
        """Stores the arguments; reads nothing."""
        if not callable(decoder):
            raise ArgumentTypeError(
                f"LMDBDataDecoder takes a function of key and value; received {type(decoder).__name__}"
            )
        super().__init__(lmdb_data, _OfPairs(decoder))


@final
class _OfPairs:
    """Adapts a function of key and value to a function of their list."""

    def __init__(self, decoder: Callable[[bytes, bytes], Any]) -> None:
        self._decoder = decoder
        self.__qualname__ = getattr(decoder, "__qualname__", type(decoder).__name__)

    def __call__(self, pair: Any) -> Any:
        return self._decoder(*pair)


def _as_bytes(key: bytes, value: memoryview) -> list[bytes]:
    return [key, bytes(value)]
