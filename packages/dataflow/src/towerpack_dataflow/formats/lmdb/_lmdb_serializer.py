"""`LMDBSerializer`: a flow as an LMDB file, and back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import SendError, extra
from ...flow._flow import DataFlow
from ...sources._as_dataflow import as_dataflow
from ...storage import create_path
from .._progress import with_progress
from .._record_flow import RecordFlow
from ._lmdb_file import writing
from ._lmdb_records import KEYS_KEY, LMDBRecords

__all__ = ["LMDBSerializer"]

_FORM = "{:08d}"
_MAP_BYTES = 2**41  # of addresses, not of memory; the file grows as it is written


@final
class LMDBSerializer:
    """Writes a flow to an LMDB file, and reads it.

    The datapoints are msgpack with arrays, never pickle: each record says its format and version, and has a
    checksum, so that a damaged one is refused. Their keys are their numbers, of eight digits, and the record
    `__keys__` says how many there are.

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
        """Writes one pass of a flow, to a file that is there when all of it is.

        Args:
            df: the flow, or what can stand in its place.
            path: the file, or a folder that exists, which then contains `data.mdb`. One that exists is
                replaced; who reads it at that time reads the old one.
            write_frequency: after how many datapoints to write what was gathered. More need more memory.

        Raises:
            ArgumentError: `write_frequency` is not an integer from 1 up.
            ImportError: the extra `[lmdb]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint holds something that is neither array, number, string, bytes, None nor a
                container of these.
        """
        arguments.count("write_frequency", write_frequency)
        target = Path(path) / "data.mdb" if os.path.isdir(path) else Path(path)
        with extra("lmdb", "writing LMDB files"):
            from ..encoding import pack_record
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
        """Returns the datapoints of a file that this class or Tensorpack wrote, as an addressable flow.

        Tensorpack wrote msgpack or pickle; a record tells by its bytes. Of a pickle, arrays and builtin types
        alone are read, so that nothing in a file is executed.

        Args:
            path: the file, or a folder that contains `data.mdb`.
            shuffle: whether each epoch has an order of its own.
            allow_pickle: whether pickles may import and call what they name. Allow it for files of your own.

        Raises:
            FormatError: as `LMDBData` raises it; a pass raises it for a record that cannot be decoded, with
                the command that rewrites the file where it holds pyarrow's serialization.
            ImportError: the extra `[lmdb]` is missing.
            OSError: the file is missing, or may not be read.
        """
        allow_pickle = arguments.flag("allow_pickle", allow_pickle)
        return RecordFlow(LMDBRecords(path, None, _Decoder(allow_pickle)), shuffle)


@final
class _Decoder:
    """Decodes datapoints; their arrays may be written to."""

    def __init__(self, allow_pickle: bool) -> None:
        self._allow_pickle = allow_pickle

    def __call__(self, key: bytes, value: memoryview) -> Any:
        from ..encoding import decode_stored

        return decode_stored(bytearray(value), self._allow_pickle)


def _packed(pack_record: Any, datapoint: Any, path: Path, number: int) -> bytes:
    try:
        record: bytes = pack_record(datapoint, checksum=True)
    except SendError as error:
        error.add_note(f"while writing datapoint {number} to {path}")
        raise
    return record


@contextmanager
def _new_file(target: Path) -> Iterator[Any]:
    """Opens a file beside `target`, which takes its place at a clean end."""
    with extra("lmdb", "writing LMDB files"):
        import lmdb
    with create_path(target) as beside, writing(beside, target):
        # It is written to the disk once, at the end: until then nothing of it counts.
        environment = lmdb.open(beside, subdir=False, lock=False, map_size=_MAP_BYTES, sync=False)
        try:
            yield environment
            environment.sync(True)
        finally:
            environment.close()
