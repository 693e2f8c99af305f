"""`TFRecordData` and `TFRecordSerializer`: the records of TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import FormatError, SendError, extra
from ...flow._flow import DataFlow
from ...operators._repeat import FixedSizeData
from ...sources._from_iterable import as_dataflow
from ...storage import URL, StoredFile, open_url
from .._offset_index import load_index
from .._plain_values import with_progress
from .._record_flow import OpenedRecords, RecordFlow, open_same
from ._framing import INDEX, checked_record, checksum_function, scan, write_tfrecord

__all__ = ["TFRecordData", "TFRecordSerializer", "TFRecords"]

_BLOCK = 2**22  # bytes to read at a time in sequential reads


@final
class TFRecordData(RecordFlow):
    """Yields the records of a TFRecord file, each verified by its checksums; addressable, without TensorFlow.

    The start of each record is read from the index file next to it (written by `index_tfrecord` and
    `write_tfrecord`), or from the file itself, once, when the flow is created. For several files use a
    `ConcatData` of flows.

    Args:
        path: path of the file, or its URL, as in `open_url`. It must not be compressed as a whole.
        decoder: creates the datapoint from a read-only view of the bytes of a record, such as
            `decode_example`. A datapoint that holds the view keeps the file mapped. By default, a datapoint
            is `[record]`, bytes.
        shuffle: whether each epoch has a different order.

    Raises:
        ArgumentTypeError: `decoder` cannot be called.
        FormatError: the file is not a TFRecord file, is truncated or compressed, or the index is damaged; or,
            while iterating, a record is damaged.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file is missing or not readable.
        StorageError: the file is remote and cannot be reached.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import decode_example, encode_example, write_tfrecord
        >>> path = tempfile.mkdtemp() + "/points.tfrecord"
        >>> write_tfrecord([encode_example({"label": 7, "x": [0.5, 1.5]})], path)
        >>> next(iter(TFRecordData(path, decode_example)))
        {'label': array([7]), 'x': array([0.5, 1.5], dtype=float32)}
    """

    _lst: TFRecords

    def __init__(
        self,
        path: URL,
        decoder: Callable[[memoryview], Any] | None = None,
        shuffle: bool = False,
    ) -> None:
        """Reads the index."""
        arguments.function("decoder is a function of a record's bytes", decoder, optional=True)
        records: Any = TFRecords(path, decoder or _as_bytes)
        super().__init__(records, shuffle)


@final
class TFRecords(OpenedRecords):
    """Records of a file, verified and decoded at each read.

    Args:
        path: path of the file.
        decode: creates a datapoint from a view of a record.
    """

    def __init__(self, path: URL, decode: Callable[[memoryview], Any]) -> None:
        """Reads the index and closes the file."""
        super().__init__(path)
        self._decode = decode
        self._crc32c: Any = checksum_function()
        with open_url(path) as file:
            self._version = file.version
            offsets = load_index(file, self._path, INDEX)
            self._offsets = scan(file, self._crc32c) if offsets is None else offsets
        self.__qualname__ = f"{self._name} of {len(self)} records"

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._offsets) - 1

    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yields records.

        Raises:
            FormatError: a record is damaged, or the decoder rejects it.
        """
        file, places = self._file(), np.asarray(indices)
        begins, ends = self._offsets[places].tolist(), self._offsets[places + 1].tolist()
        read, decode, crc32c = file.read, self._decode, self._crc32c
        for index, begin, end in zip(indices, begins, ends):
            try:
                datapoint = decode(checked_record(read(begin, end - begin), crc32c))
            except FormatError as error:
                raise FormatError(f"{self._name}, record {index}: {error}") from error
            yield datapoint

    def rest(self, start: int) -> Iterator[Any]:
        """Yields the records from number `start` on, read in large blocks."""
        file, offsets = self._file(), self._offsets
        while start < len(self):
            begin = int(offsets[start])
            stop = max(start + 1, int(np.searchsorted(offsets, begin + _BLOCK, "right")) - 1)
            places = (offsets[start : stop + 1] - begin).tolist()
            block = file.read(begin, places[-1])
            for index in range(stop - start):
                yield self._decoded(block[places[index] : places[index + 1]], start + index)
            start = stop

    def _decoded(self, frame: memoryview, index: int) -> Any:
        try:
            return self._decode(checked_record(frame, self._crc32c))
        except FormatError as error:
            raise FormatError(f"{self._name}, record {index}: {error}") from error

    def _record(self, index: int) -> Any:
        return next(self.several((index,)))

    def _open(self) -> StoredFile:
        return open_same(self._path, self._version)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the open file; a copy opens it at the first read."""
        return {**super().__getstate__(), "_crc32c": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the attributes of the pickled object."""
        vars(self).update(state, _crc32c=checksum_function())


def _as_bytes(record: memoryview) -> list[bytes]:
    return [bytes(record)]


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
            from ..encoding._stored_datapoints import decode_stored
        return decode_stored(bytearray(record), self._allow_pickle)


def _records(datapoints: Any, path: str | os.PathLike[str]) -> Iterator[bytes]:
    with extra("tfrecord", "writing datapoints to TFRecord files"):
        from ..encoding._stored_datapoints import pack_record
    for number, datapoint in enumerate(datapoints):
        try:
            yield pack_record(datapoint)
        except SendError as error:
            error.add_note(f"while writing datapoint {number} to {os.fspath(path)}")
            raise
