"""`TFRecordSerializer`: a flow as a TFRecord file, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import SendError, extra
from ...flow._flow import DataFlow
from ...operators._repeat import FixedSizeData
from ...sources._as_dataflow import as_dataflow
from .._progress import with_progress
from ._tfrecord_data import TFRecordData
from ._write_tfrecord import write_tfrecord

__all__ = ["TFRecordSerializer"]


@final
class TFRecordSerializer:
    """Writes a flow to a TFRecord file, and reads it.

    The records are datapoints of any kind as msgpack with arrays, never pickle; each says its format and
    version. For records that TensorFlow can decode, see `encode_example` and `write_tfrecord`.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import DataFromList
        >>> path = tempfile.mkdtemp() + "/points.tfrecord"
        >>> TFRecordSerializer.save(DataFromList([[1, "one"], [2, "two"]], shuffle=False), path)
        >>> list(TFRecordSerializer.load(path))
        [[1, 'one'], [2, 'two']]
    """

    @staticmethod
    def save(df: Any, path: str | os.PathLike[str]) -> None:
        """Writes one pass of a flow, with an index beside the file.

        Args:
            df: the flow, or what can stand in its place.
            path: of the file. One that exists is replaced.

        Raises:
            ImportError: the extra `[tfrecord]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint holds something that is neither array, number, string, bytes, None nor a
                container of these.
        """
        datapoints = with_progress(as_dataflow(df), f"encoding {os.path.basename(path)}")
        write_tfrecord(_records(datapoints, path), path)

    @staticmethod
    def load(
        path: str | os.PathLike[str], size: int | None = None, *, allow_pickle: bool = False
    ) -> DataFlow:
        """Returns the datapoints of a file that this class or Tensorpack wrote, as an addressable flow.

        Args:
            path: of the file.
            size: the length of a pass, if it shall be another one than that of the file.
            allow_pickle: whether pickles may import and call what they name. Allow it for files of your own;
                without it, arrays and Python's builtin types are read.

        Raises:
            FormatError: as `TFRecordData` raises it; a pass raises it for a record that cannot be decoded.
            ImportError: the extra `[tfrecord]` is missing.
            OSError: the file is missing, or may not be read.
        """
        flow = TFRecordData(path, _Decoder(arguments.flag("allow_pickle", allow_pickle)))
        return flow if size is None else FixedSizeData(flow, size)


@final
class _Decoder:
    """Decodes datapoints; their arrays may be written to."""

    def __init__(self, allow_pickle: bool) -> None:
        self._allow_pickle = allow_pickle
        self.__qualname__ = "datapoints"

    def __call__(self, record: memoryview) -> Any:
        with extra("tfrecord", "reading datapoints of TFRecord files"):
            from ..encoding import decode_stored
        return decode_stored(bytearray(record), self._allow_pickle)


def _records(datapoints: Any, path: str | os.PathLike[str]) -> Iterator[bytes]:
    with extra("tfrecord", "writing datapoints to TFRecord files"):
        from ..encoding import pack_record
    for number, datapoint in enumerate(datapoints):
        try:
            yield pack_record(datapoint)
        except SendError as error:
            error.add_note(f"while writing datapoint {number} to {os.fspath(path)}")
            raise
