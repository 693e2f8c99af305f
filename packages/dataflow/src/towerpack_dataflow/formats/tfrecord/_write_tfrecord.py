"""Writes TFRecord files with an index file next to them."""

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
    """Writes a TFRecord file and its index, both atomically.

    Args:
        records: bytes of each record, such as results of `encode_example`.
        path: path of the file. An existing file is replaced; current readers continue to read the old one.

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
                    "Encode arrays with encode_example, or write datapoints with TFRecordSerializer.save"
                )
            file.write(framed(record, crc32c))
            ends.append(ends[-1] + len(record) + FRAME_BYTES)
    with open_url(path) as written:
        store_index(written, INDEX, np.array(ends, np.int64))


def index_tfrecord(path: str | os.PathLike[str]) -> int:
    """Writes the index of a TFRecord file, `<path>.index`, so that flows over the file are created at once.

    The index records its format and version, and size, time and last bytes of the file, so that a flow
    detects a replaced file.

    Returns:
        the number of records.

    Raises:
        FormatError: the file is not a TFRecord file, is truncated, or is compressed as a whole.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file cannot be read, or the index cannot be written.
    """
    with open_url(path) as file:
        offsets = scan(file, checksum_function())
        store_index(file, INDEX, offsets)
    return len(offsets) - 1
