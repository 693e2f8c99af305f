"""Datapoints as bytes, for messages and files: msgpack with arrays, and what Tensorpack wrote."""

from ._array_encoding import ArrayFrames, array_description, is_plain, raw_bytes
from ._messages import MAX_MESSAGE_BYTES, MESSAGE_VERSION, pack_message, unpack_message
from ._records import pack_record, record_version, unpack_record
from ._stored_datapoints import decode_stored

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MESSAGE_VERSION",
    "ArrayFrames",
    "array_description",
    "decode_stored",
    "is_plain",
    "pack_message",
    "pack_record",
    "raw_bytes",
    "record_version",
    "unpack_message",
    "unpack_record",
]
