"""`LMDBData`: the records of an LMDB file, and `LMDBDataDecoder`, what they mean."""

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

    Each process and each thread reads by a transaction of its own, which begins when it first reads. Nothing
    is locked: do not write to the file meanwhile. A file that was replaced or changed since the flow was made
    is refused when a process opens it.

    Args:
        lmdb_path: a file, or a folder that contains `data.mdb`.
        shuffle: whether each epoch has an order of its own; otherwise records come in the order of the keys.
        keys: a list of keys, or a format string such as `"{:08d}"`, whose numbers begin at 0. Without it, the
            record `__keys__` lists them, as `LMDBSerializer` and Tensorpack write it; if it is missing, all
            keys are read, which takes a while.

    Raises:
        ArgumentError: `keys` is a string that formats no number.
        FormatError: the file is none of LMDB's, is truncated, has another version, or lists no keys that can
            be read.
        ImportError: the extra `[lmdb]` is missing.
        OSError: the file is missing, or may not be read.
    """

    _holds = ()
    _steady = True
    _argument_names = {"lmdb_path": "_lst"}

    def __init__(
        self,
        lmdb_path: str | os.PathLike[str],
        shuffle: bool = True,
        keys: Iterable[bytes | str] | str | None = None,
    ) -> None:
        """Reads the keys."""
        super().__init__(LMDBRecords(lmdb_path, keys, _as_bytes), shuffle)


@final
class LMDBDataDecoder(MapData):
    """Yields what a function makes of each key and value; as addressable as a `MapData`.

    Args:
        lmdb_data: a flow of `[key, value]`.
        decoder: called with key and value; `None` drops the datapoint.

    Raises:
        ArgumentTypeError: `decoder` cannot be called.
    """

    def __init__(self, lmdb_data: Any, decoder: Callable[[bytes, bytes], Any]) -> None:
        """Puts `decoder` over the records."""
        if not callable(decoder):
            raise ArgumentTypeError(
                f"LMDBDataDecoder takes a function of key and value; received {type(decoder).__name__}"
            )
        super().__init__(lmdb_data, _OfPairs(decoder))


@final
class _OfPairs:
    """A function of key and value as one of their list."""

    def __init__(self, decoder: Callable[[bytes, bytes], Any]) -> None:
        self._decoder = decoder
        self.__qualname__ = getattr(decoder, "__qualname__", type(decoder).__name__)

    def __call__(self, pair: Any) -> Any:
        return self._decoder(*pair)


def _as_bytes(key: bytes, value: memoryview) -> list[bytes]:
    return [key, bytes(value)]
