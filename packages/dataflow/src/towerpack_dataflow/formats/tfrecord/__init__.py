"""TFRecord files and their examples, without TensorFlow; needs the extra `[tfrecord]`."""

from ._example import decode_example, decode_sequence_example, encode_example
from ._framing import index_tfrecord, write_tfrecord
from ._tfrecord_data import TFRecordData, TFRecordSerializer

__all__ = [
    "TFRecordData",
    "TFRecordSerializer",
    "decode_example",
    "decode_sequence_example",
    "encode_example",
    "index_tfrecord",
    "write_tfrecord",
]
