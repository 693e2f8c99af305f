"""`tf.train.Example`, the usual content of TFRecord files, to and from dicts of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..._errors import ArgumentError, FormatError
from .._wire_format import WireError, fields, length_delimited, packed_varints, varint

__all__ = ["decode_example", "decode_sequence_example", "encode_example"]

# Source: tensorflow/core/example/{example,feature}.proto. An Example is Features {1: a map}, whose entries
# are a key and a Feature; a Feature is one of three lists, whose only field is number 1.
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3
_VARINT, _DELIMITED = 0, 2
_KINDS = {"b": _INTEGERS, "i": _INTEGERS, "u": _INTEGERS, "f": _FLOATS, "S": _BYTES, "U": _BYTES, "O": _BYTES}


def decode_example(record: Any) -> dict[str, np.ndarray]:
    """Decodes a serialized `tf.train.Example`.

    Args:
        record: its bytes, or a view of them.

    Returns:
        an array of one axis for each feature, which may be written to: int64, float32, or objects, each
        of which is bytes. A feature without any list is an empty float32 array.

    Raises:
        FormatError: the bytes are no `Example`.

    Example:
        >>> decode_example(encode_example({"name": "seven", "size": [28, 28]}))
        {'name': array([b'seven'], dtype=object), 'size': array([28, 28])}
    """
    try:
        return {name: _feature(content) for name, content in _entries(memoryview(record), 1)}
    except (WireError, UnicodeDecodeError) as error:
        raise FormatError(f"the record is no tf.train.Example: {error}") from error


def decode_sequence_example(record: Any) -> tuple[dict[str, np.ndarray], dict[str, list[np.ndarray]]]:
    """Decodes a serialized `tf.train.SequenceExample`.

    Args:
        record: its bytes, or a view of them.

    Returns:
        the features of its context, as `decode_example` gives them; and by name its lists of features, such
        as the frames of a video: an array for each member, which may differ in length.

    Raises:
        FormatError: the bytes are no `SequenceExample`.

    Example:
        >>> decode_sequence_example(bytes.fromhex("0a0b0a090a016312041a020a00"))
        ({'c': array([], dtype=int64)}, {})
    """
    view = memoryview(record)
    try:
        context = {name: _feature(content) for name, content in _entries(view, 1)}
        lists = {name: list(map(_feature, _members(content, 1))) for name, content in _entries(view, 2)}
    except (WireError, UnicodeDecodeError) as error:
        raise FormatError(f"the record is no tf.train.SequenceExample: {error}") from error
    return context, lists


def _members(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yields the messages in a field that is repeated."""
    return (content for number, kind, content in fields(message) if (number, kind) == (wanted, _DELIMITED))


def _entries(message: memoryview, wanted: int) -> Iterator[tuple[str, memoryview]]:
    """Yields names and values of the map in a field, whose only field is number 1."""
    for content in _members(message, wanted):
        for entry in _members(content, 1):
            name, value = "", memoryview(b"")
            for number, kind, part in fields(entry):
                if kind == _DELIMITED:
                    if number == 1:
                        name = str(part, "utf-8")
                    elif number == 2:
                        value = part
            yield name, value


def _feature(feature: memoryview) -> np.ndarray:
    found = np.empty(0, np.float32)
    for number, kind, content in fields(feature):
        if kind == _DELIMITED and number in _LISTS:
            found = _LISTS[number](content)
    return found


def _bytes_list(content: memoryview) -> np.ndarray:
    values = [bytes(value) for number, kind, value in fields(content) if number == 1 and kind == _DELIMITED]
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _float_list(content: memoryview) -> np.ndarray:
    # Packed, or one by one, as old writers did; both are the bytes of the floats.
    parts = [value for number, kind, value in fields(content) if number == 1 and kind != _VARINT]
    raw = bytearray().join(parts)
    if len(raw) % 4:
        raise WireError(f"floats have {len(raw)} bytes, no multiple of 4")
    floats: np.ndarray = np.frombuffer(raw, "<f4").astype(np.float32, copy=False)
    return floats


def _integer_list(content: memoryview) -> np.ndarray:
    parts = []
    for number, kind, value in fields(content):
        if number == 1 and kind == _DELIMITED:
            parts.append(packed_varints(value))
        elif number == 1 and kind == _VARINT:
            parts.append(np.array([value], np.uint64).view(np.int64))
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


_LISTS = {_BYTES: _bytes_list, _FLOATS: _float_list, _INTEGERS: _integer_list}


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Encodes arrays as a serialized `tf.train.Example`, which TensorFlow's parsers read.

    Args:
        features: by name, an array of any shape, a list, or a single value. Integers and booleans become an
            `Int64List`; floats a `FloatList`, which has 32 bits; strings and bytes a `BytesList`. Shapes are
            not stored: give them as features of their own.

    Raises:
        ArgumentError: a feature is none of these, or a number that 64 bits, or a float's 32, cannot hold.
    """
    entries = [
        length_delimited(
            1, length_delimited(1, name.encode()) + length_delimited(2, _encoded_feature(name, value))
        )
        for name, value in features.items()
    ]
    return length_delimited(1, b"".join(entries))


def _encoded_feature(name: str, value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return length_delimited(
            _BYTES, length_delimited(1, bytes(value))
        )  # an array would lose zeros at its end
    array = np.asarray(value, object) if _holds_text(value) else np.asarray(value)
    kind = _KINDS.get(array.dtype.kind)
    if kind is None:
        raise ArgumentError(
            f"feature {name!r} holds integers, booleans, floats, strings or bytes; received an array of "
            f"{array.dtype}"
        )
    flat = array.reshape(-1)
    if kind == _BYTES:
        return length_delimited(kind, b"".join(length_delimited(1, _as_bytes(name, item)) for item in flat))
    packed = _packed_floats(name, flat) if kind == _FLOATS else _packed_integers(name, flat)
    return length_delimited(kind, length_delimited(1, packed) if packed else b"")


def _holds_text(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, (list, tuple)) and any(isinstance(item, (str, bytes)) for item in value)
    )


def _as_bytes(name: str, item: Any) -> bytes:
    if not isinstance(item, (str, bytes)):
        raise ArgumentError(f"feature {name!r} is an array of strings and bytes; received {item!r} in it")
    return item.encode() if isinstance(item, str) else bytes(item)


def _packed_floats(name: str, values: np.ndarray) -> bytes:
    with np.errstate(over="ignore"):
        floats = values.astype("<f4")
    if np.any(np.isinf(floats) & np.isfinite(values)):
        raise ArgumentError(f"feature {name!r} has a number too large for a float of 32 bits; scale it")
    return floats.tobytes()


def _packed_integers(name: str, values: np.ndarray) -> bytes:
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        raise ArgumentError(f"feature {name!r} has a number above {2**63 - 1}; an Int64List holds none")
    return b"".join(map(varint, values.tolist()))
