"""`TFRecordSerializer`: writes and reads flows as TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import SendError, extra
from ...flow._flow import DataFlow
from ...operators._repeat import FixedSizeData
from ...sources._from_iterable import as_dataflow
from .._progress import with_progress
from ._framing import write_tfrecord
from ._tfrecord_data import TFRecordData

__all__ = ["TFRecordSerializer"]


@final
class TFRecordSerializer:
    """Writes a flow to a TFRecord file and reads it.

    The records are datapoints of any kind as msgpack with arrays, without pickle; each contains its format
    and version. For records that TensorFlow can decode, see `encode_example` and `write_tfrecord`.

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
        """Writes one pass of a flow, with an index file next to it.

        Args:
            df: the flow, a list or another iterable.
            path: path of the file. An existing file is replaced.

        Raises:
            ImportError: the extra `[tfrecord]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint contains an object other than arrays, numbers, strings, bytes, None and
                containers of these.
        """
        datapoints = with_progress(as_dataflow(df), f"encoding {os.path.basename(path)}")
        write_tfrecord(_records(datapoints, path), path)

    @staticmethod
    def load(
        path: str | os.PathLike[str], size: int | None = None, *, allow_pickle: bool = False
    ) -> DataFlow:
        """Returns the datapoints of a file written by this class or Tensorpack as an addressable flow.

        Args:
            path: path of the file.
            size: length of a pass, if it differs from that of the file.
            allow_pickle: whether pickles may import and call any object by name. Allow it only for trusted
                files; without it, arrays and Python's builtin types are read.

        Raises:
            FormatError: as for `TFRecordData`; or, while iterating, a record cannot be decoded.
            ImportError: the extra `[tfrecord]` is missing.
            OSError: the file is missing or not readable.
        """
        flow = TFRecordData(path, _DatapointDecoder(arguments.flag("allow_pickle", allow_pickle)))
        return flow if size is None else FixedSizeData(flow, size)


@final
class _DatapointDecoder:
    """Decodes datapoints with writable arrays."""

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
