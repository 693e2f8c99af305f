"""Encoding of datapoints for messages and files: msgpack with arrays, and the formats of Tensorpack."""

from ._messages import MAX_MESSAGE_BYTES, MESSAGE_VERSION, pack_message, unpack_message
from ._stored_datapoints import decode_stored, pack_record, record_version, unpack_record

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MESSAGE_VERSION",
    "decode_stored",
    "pack_message",
    "pack_record",
    "record_version",
    "unpack_message",
    "unpack_record",
]
