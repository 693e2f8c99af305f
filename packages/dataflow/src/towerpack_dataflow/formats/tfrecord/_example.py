"""`tf.train.Example`, the usual content of TFRecord files, converted to and from dicts of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..._errors import ArgumentError, FormatError
from .._wire_format import WireError, fields, length_delimited, packed_varints, varint

__all__ = ["decode_example", "decode_sequence_example", "encode_example"]

# Source: tensorflow/core/example/{example,feature}.proto. An Example is Features {1: a map}; its entries are
# a key and a Feature; a Feature is one of three lists, each with the single field number 1.
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3
_VARINT, _DELIMITED = 0, 2
_TEXT = (str, bytes, bytearray)
_KINDS = {"b": _INTEGERS, "i": _INTEGERS, "u": _INTEGERS, "f": _FLOATS, "S": _BYTES, "U": _BYTES, "O": _BYTES}


def decode_example(record: Any) -> dict[str, np.ndarray]:
    """Decodes a serialized `tf.train.Example`.

    Args:
        record: bytes of the example, or a view of them.

    Returns:
        a writable array of one axis for each feature: int64, float32, or objects of type bytes. A feature
        without a list is an empty float32 array.

    Raises:
        FormatError: the bytes are not an `Example`.

    Example:
        >>> decode_example(encode_example({"name": "seven", "size": [28, 28]}))
        {'name': array([b'seven'], dtype=object), 'size': array([28, 28])}
    """
    try:
        return {name: _feature(content) for name, content in _entries(memoryview(record), 1)}
    except (WireError, UnicodeDecodeError) as error:
        raise FormatError(f"the record is not a tf.train.Example: {error}") from error


def decode_sequence_example(record: Any) -> tuple[dict[str, np.ndarray], dict[str, list[np.ndarray]]]:
    """Decodes a serialized `tf.train.SequenceExample`.

    Args:
        record: bytes of the example, or a view of them.

    Returns:
        the features of its context, as from `decode_example`; and by name its lists of features, such as the
        frames of a video: one array per member, of varying length.

    Raises:
        FormatError: the bytes are not a `SequenceExample`.

    Example:
        >>> decode_sequence_example(bytes.fromhex("0a0b0a090a016312041a020a00"))
        ({'c': array([], dtype=int64)}, {})
    """
    view = memoryview(record)
    try:
        context = {name: _feature(content) for name, content in _entries(view, 1)}
        lists = {name: list(map(_feature, _members(content, 1))) for name, content in _entries(view, 2)}
    except (WireError, UnicodeDecodeError) as error:
        raise FormatError(f"the record is not a tf.train.SequenceExample: {error}") from error
    return context, lists


def _members(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yields the messages in a repeated field."""
    return (content for number, kind, content in fields(message) if (number, kind) == (wanted, _DELIMITED))


def _entries(message: memoryview, wanted: int) -> Iterator[tuple[str, memoryview]]:
    """Yields names and values of the map in a field; the map has only the field number 1."""
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
    # Packed, or one by one, as from old writers; both are the bytes of the floats.
    parts = [value for number, kind, value in fields(content) if number == 1 and kind != _VARINT]
    raw = bytearray().join(parts)
    if len(raw) % 4:
        raise WireError(f"floats have {len(raw)} bytes, not a multiple of 4")
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
    """Encodes arrays as a serialized `tf.train.Example`, readable by TensorFlow's parsers.

    Args:
        features: by name, an array of any shape, a list, or a single value. Integers and booleans become an
            `Int64List`; floats a `FloatList` with 32 bits; strings and bytes a `BytesList`. Shapes are not
            stored: add them as separate features.

    Raises:
        ArgumentError: a name is not a string; a feature has another type, is a masked array, or has a number
            beyond 64 bits, or 32 for a float.
    """
    if not isinstance(features, Mapping):
        raise ArgumentError(
            f"encode_example takes a mapping of features by name; received {type(features).__name__}"
        )
    entries = [
        length_delimited(
            1, length_delimited(1, _name(name)) + length_delimited(2, _encoded_feature(name, value))
        )
        for name, value in features.items()
    ]
    return length_delimited(1, b"".join(entries))


def _name(name: Any) -> bytes:
    if not isinstance(name, str):
        raise ArgumentError(f"the name of a feature is a string; received {name!r}")
    return _as_bytes(name, name)


def _encoded_feature(name: str, value: Any) -> bytes:
    array = _as_array(name, value)
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


def _as_array(name: str, value: Any) -> np.ndarray:
    """Returns the values of a feature; text and bytes as objects: an array would drop trailing zeros."""
    leaves = list(_leaves(value))
    if any(isinstance(leaf, _TEXT) for leaf in leaves):
        return np.fromiter(leaves, object, len(leaves))
    for leaf in leaves:
        if isinstance(leaf, (np.ma.MaskedArray, memoryview)):
            raise ArgumentError(
                f"feature {name!r} holds a {type(leaf).__name__}, which an Example cannot store; pass its "
                "data, and a mask as another feature"
            )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(
            f"feature {name!r} holds lists of unequal lengths; pass one flat list ({error})"
        ) from error
    if array.dtype.kind == "f":
        _check_integers(name, [np.asarray(leaf) for leaf in leaves])
    return array


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the members of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _check_integers(name: str, leaves: list[np.ndarray]) -> None:
    """Rejects integers that NumPy would change by conversion to floats, among floats or beyond 64 bits."""
    integers = [leaf for leaf in leaves if leaf.dtype.kind in "biu"]
    exact = all(leaf.astype("<f4").astype(object).tolist() == leaf.tolist() for leaf in integers)
    if not exact or (integers and len(integers) == len(leaves)):
        raise ArgumentError(
            f"feature {name!r} holds integers that neither an Int64List nor floats of 32 bits can hold; pass "
            "integers and floats as two features"
        )


def _as_bytes(name: str, item: Any) -> bytes:
    if not isinstance(item, _TEXT):
        raise ArgumentError(f"feature {name!r} is an array of strings and bytes; received {item!r} in it")
    try:
        return item.encode() if isinstance(item, str) else bytes(item)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"feature {name!r} has text that UTF-8 cannot encode: {error}") from error


def _packed_floats(name: str, values: np.ndarray) -> bytes:
    with np.errstate(over="ignore"):
        floats = values.astype("<f4")
    if np.any(np.isinf(floats) & np.isfinite(values)):
        raise ArgumentError(f"feature {name!r} has a number too large for a float of 32 bits; scale it")
    return floats.tobytes()


def _packed_integers(name: str, values: np.ndarray) -> bytes:
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        raise ArgumentError(f"feature {name!r} has a number above {2**63 - 1}; an Int64List cannot hold it")
    return b"".join(map(varint, values.tolist()))
