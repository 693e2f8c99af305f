"""`LMDBData`, `LMDBDataDecoder` and `LMDBSerializer`: read and write LMDB files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import SendError, extra
from ...flow._flow import DataFlow
from ...operators._map_data import MapData
from ...sources._from_iterable import as_dataflow
from ...storage import create_path
from .._plain_values import with_progress
from .._record_flow import RecordFlow
from ._lmdb_records import KEYS_KEY, LMDBRecords, writing

__all__ = ["LMDBData", "LMDBDataDecoder", "LMDBSerializer"]


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

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import DataFromList
        >>> path = tempfile.mkdtemp() + "/points.lmdb"
        >>> LMDBSerializer.save(DataFromList([[1, "one"], [2, "two"]], shuffle=False), path)
        >>> [key for key, value in LMDBData(path, shuffle=False)]
        [b'00000000', b'00000001']
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

    Example:
        >>> records = [[b"00", b"one"], [b"01", b"two"]]  # such as LMDBData(path)
        >>> list(LMDBDataDecoder(records, lambda key, value: [int(key), value.decode()]))
        [[0, 'one'], [1, 'two']]
    """

    def __init__(self, lmdb_data: Any, decoder: Callable[[bytes, bytes], Any]) -> None:
        """Stores the arguments; reads nothing."""
        arguments.function("LMDBDataDecoder takes a function of key and value", decoder)
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


_FORM = "{:08d}"
_MAP_BYTES = 2**41  # bytes of addresses, not of memory; the file grows during the write


@final
class LMDBSerializer:
    """Writes a flow to an LMDB file and reads it.

    The datapoints are encoded as msgpack with arrays, without pickle: each record contains its format and
    version and a checksum, so that a damaged one is detected. Their keys are their indices with eight digits,
    and the record `__keys__` holds their number.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import DataFromList
        >>> path = tempfile.mkdtemp() + "/points.lmdb"
        >>> LMDBSerializer.save(DataFromList([[1, "one"], [2, "two"]], shuffle=False), path)
        >>> list(LMDBSerializer.load(path, shuffle=False))
        [[1, 'one'], [2, 'two']]
    """

    @staticmethod
    def save(df: Any, path: str | os.PathLike[str], write_frequency: int = 5000) -> None:
        """Writes one pass of a flow atomically.

        Args:
            df: the flow, a list or another iterable.
            path: the file, or an existing folder, which then contains `data.mdb`. An existing file is
                replaced; current readers continue to read the old one.
            write_frequency: number of datapoints to collect before a write. More need more memory.

        Raises:
            ArgumentError: `write_frequency` is not an integer from 1 up.
            ImportError: the extra `[lmdb]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint contains an object other than arrays, numbers, strings, bytes, None and
                containers of these.
        """
        arguments.count("write_frequency", write_frequency)
        target = Path(path) / "data.mdb" if os.path.isdir(path) else Path(path)
        with extra("lmdb", "writing LMDB files"):
            from ..encoding._stored_datapoints import pack_record
        with _new_file(target) as environment:
            datapoints = iter(with_progress(as_dataflow(df), f"writing {target.name}"))
            count = 0
            while several := list(itertools.islice(datapoints, write_frequency)):
                with environment.begin(write=True) as transaction:
                    for datapoint in several:
                        transaction.put(
                            _FORM.format(count).encode(), _packed(pack_record, datapoint, target, count)
                        )
                        count += 1
            with environment.begin(write=True) as transaction:
                transaction.put(KEYS_KEY, pack_record({"keys": _FORM, "count": count}, checksum=True))

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = True, *, allow_pickle: bool = False) -> DataFlow:
        """Returns the datapoints of a file written by this class or Tensorpack as an addressable flow.

        Tensorpack wrote msgpack or pickle; the bytes of a record identify its encoding. From a pickle, only
        arrays and builtin types are read, so that no code in a file is executed.

        Args:
            path: the file, or a folder that contains `data.mdb`.
            shuffle: whether each epoch has a different order.
            allow_pickle: whether pickles may import and call any object by name. Allow it only for trusted
                files.

        Raises:
            FormatError: as for `LMDBData`; or, while iterating, a record cannot be decoded. For pyarrow's
                serialization, the message has a command that rewrites the file.
            ImportError: the extra `[lmdb]` is missing.
            OSError: the file is missing or not readable.
        """
        allow_pickle = arguments.flag("allow_pickle", allow_pickle)
        return RecordFlow(LMDBRecords(path, None, partial(_decoded, allow_pickle)), shuffle)


def _decoded(allow_pickle: bool, key: bytes, value: memoryview) -> Any:
    """Decodes a datapoint, with writable arrays."""
    from ..encoding._stored_datapoints import decode_stored

    return decode_stored(bytearray(value), allow_pickle)


def _packed(pack_record: Any, datapoint: Any, path: Path, number: int) -> bytes:
    try:
        record: bytes = pack_record(datapoint, checksum=True)
    except SendError as error:
        error.add_note(f"while writing datapoint {number} to {path}")
        raise
    return record


@contextmanager
def _new_file(target: Path) -> Iterator[Any]:
    """Opens a file next to `target` and renames it after a clean end."""
    with extra("lmdb", "writing LMDB files"):
        import lmdb
    with create_path(target) as beside, writing(beside, target):
        # It is flushed to the disk once, at the end: until then it is not valid.
        environment = lmdb.open(beside, subdir=False, lock=False, map_size=_MAP_BYTES, sync=False)
        try:
            yield environment
            environment.sync(True)
        finally:
            environment.close()
