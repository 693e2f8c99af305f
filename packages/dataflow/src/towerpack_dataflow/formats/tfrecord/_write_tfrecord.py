"""Writing TFRecord files, with the index beside them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable

import numpy as np

from ..._errors import ArgumentTypeError
from ...storage import create_file, open_url
from .._offset_index import store_index
from .._progress import with_progress
from ._framing import FRAME_BYTES, INDEX, checksum_function, framed, scan

__all__ = ["index_tfrecord", "write_tfrecord"]


def write_tfrecord(records: Iterable[bytes], path: str | os.PathLike[str]) -> None:
    """Writes a TFRecord file and its index, each of which is there as a whole or not at all.

    Args:
        records: the bytes of each record, such as `encode_example` makes them.
        path: of the file. One that exists is replaced; who reads it at that time reads the old one.

    Raises:
        ArgumentTypeError: a record is not bytes.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file cannot be written.
    """
    crc32c = checksum_function()
    ends = array("q", [0])
    with create_file(path) as file:
        for number, record in enumerate(with_progress(records, f"writing {os.path.basename(path)}")):
            if not isinstance(record, (bytes, bytearray)):
                raise ArgumentTypeError(
                    f"records are bytes; received {type(record).__name__} for record {number}. "
                    "encode_example makes them of arrays, TFRecordSerializer.save of datapoints"
                )
            file.write(framed(record, crc32c))
            ends.append(ends[-1] + len(record) + FRAME_BYTES)
    with open_url(path) as written:
        store_index(written, INDEX, np.array(ends, np.int64))


def index_tfrecord(path: str | os.PathLike[str]) -> int:
    """Writes the index of a TFRecord file, `<path>.index`, so that flows over the file are made at once.

    The index says its format and version, and size, time and last bytes of the file, so that a flow notices
    if the file has been replaced since.

    Returns:
        the number of records.

    Raises:
        FormatError: the file is no TFRecord file, is truncated, or is compressed as a whole.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file cannot be read, or the index cannot be written.
    """
    with open_url(path) as file:
        offsets = scan(file, checksum_function())
        store_index(file, INDEX, offsets)
    return len(offsets) - 1
