"""TFRecord compared with tf.data and with a loop of reads and checksums; all verify the checksums."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import tensorflow as tf
from _formats_row import LARGE, SMALL, Row, per_second, random_order, random_records

from towerpack_dataflow import TFRecordData, decode_example, encode_example, write_tfrecord


def images(records: list[bytes]) -> Iterator[bytes]:
    """Examples of a record each, and a label."""
    for number, record in enumerate(records):
        yield encode_example({"image": record, "label": number})


def as_image(record: memoryview) -> list[Any]:
    """Makes the array of an image, and its label."""
    example = decode_example(record)
    return [np.frombuffer(example["image"][0], np.uint8), example["label"][0]]


def by_tf_data(path: Path, parse: Any = None) -> Iterable[Any]:
    """Reads with one thread, as the process has one core."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    records = tf.data.TFRecordDataset(str(path)).with_options(options)
    return (records.map(parse) if parse else records).as_numpy_iterator()


def parsed(record: tf.Tensor) -> Any:
    """The same as `as_image`, as ops."""
    kinds = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, kinds)
    return tf.io.decode_raw(example["image"], tf.uint8), example["label"]


def mapped(path: Path) -> memoryview:
    """The bytes of a file, which is mapped once, as that of our flow is."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def bare(frames: memoryview, size: int) -> Iterator[bytes]:
    """Reads records of one size in a random order, and verifies both checksums."""
    for number in random_order(size):
        frame = frames[number * (size + 16) : (number + 1) * (size + 16)]
        length, masked = struct.unpack_from("<QI", frame)
        if rotated(crc32c.crc32c(frame[:8])) != masked or length != size:
            raise ValueError(number)
        record = frame[12:-4]
        if rotated(crc32c.crc32c(record)) != struct.unpack_from("<I", frame, size + 12)[0]:
            raise ValueError(number)
        yield bytes(record)


def rotated(crc: int) -> int:
    """A checksum as it is stored."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def rows(folder: Path) -> Iterator[Row]:
    """Records of two sizes, as bytes and as arrays; then random reads."""
    for size in (LARGE, SMALL):
        records, name = random_records(size), f"{size / 1000:g} KB"
        raw, examples = folder / f"raw-{size}", folder / f"examples-{size}"
        write_tfrecord(records, raw)
        write_tfrecord(images(records), examples)
        ours, theirs = partial(TFRecordData, raw), partial(by_tf_data, raw)
        yield Row(f"TFRecord of {name}", "tf.data", partial(per_second, ours), partial(per_second, theirs), 1)
        ours, theirs = partial(TFRecordData, examples, as_image), partial(by_tf_data, examples, parsed)
        what = f"TFRecord of {name}, Examples as arrays"
        yield Row(what, "tf.data", partial(per_second, ours), partial(per_second, theirs), 1)
    flow = TFRecordData(folder / f"raw-{LARGE}", shuffle=True)
    what = f"TFRecord with an index, random reads of {LARGE // 1000} KB"
    loop = partial(bare, mapped(folder / f"raw-{LARGE}"), LARGE)
    yield Row(what, "mmap and crc32c", lambda: per_second(lambda: flow), partial(per_second, loop), 0.9)
