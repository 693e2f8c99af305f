"""Converts states to JSON text and back, with Python and NumPy types that JSON lacks, without TensorFlow."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["shown_value", "state_from_json", "state_to_json"]

# An object with this key represents a value that JSON lacks: {"__towerpack__": "tuple", "of": [1, 2]}.
_TAG, _OF = "__towerpack__", "of"
_PLAIN = {int, float, bool, type(None)}
# The JSON reader merges two surrogates into one character.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_NUMPY = re.compile(r"[<>|=](?:[biufc]\d+|[mM]8(?:\[\w+\])?)")
_DEEPEST = 100
# Also whole numbers with too many digits, and values that contain themselves.
_REFUSED = (TypeError, ValueError, RecursionError)


def state_to_json(state: Mapping[str, Any]) -> str:
    """Converts a state to JSON text, from which `state_from_json` restores an equal state of the same types.

    None, bool, int, float, str, bytes, lists, tuples, dicts and NumPy's numbers, truth values, dates and
    strings are kept exactly, also as keys of dicts. JSON types are written directly; other types become an
    object with the key "__towerpack__".

    Raises:
        TypeError: the state contains any other type, such as an array or an instance of a subclass; the
            message names the path and the value.
    """
    state = dict(state)
    try:
        return json.dumps(_tagged(state))
    except _REFUSED as error:
        raise TypeError(
            f"{_find_culprit(state)}, which JSON cannot express. Let state_dict() return numbers, strings, "
            "bytes, lists, tuples and dicts, not of subclasses: convert with list(x), dict(x) or "
            "x.tolist(). Write arrays to files, in save_files(directory)."
        ) from error


def state_from_json(text: str) -> Any:
    """Restores a state from the text of `state_to_json`; text without tags is read as plain JSON.

    Raises:
        ValueError: the text is not JSON, or contains an unknown tag of another release.
    """
    try:
        return json.loads(text, object_hook=_untagged)
    except (AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it is nested too deeply, or has a damaged value: {error}") from error


def shown_value(value: Any) -> str:
    """Formats a value of a state for display: as JSON, or as a Python literal if JSON lacks a type."""
    if _TAG in state_to_json({"value": value}):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _tagged(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is str:
        return (
            value if _is_plain_text(value) else _tag("str", _base64(value.encode("utf-8", "surrogatepass")))
        )
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if kind is list:
        # Most long lists contain only numbers.
        return value if _PLAIN.issuperset(map(type, value)) else [_tagged(part, depth + 1) for part in value]
    if kind is dict:
        return _tagged_dict(value, depth)
    if kind is tuple:
        return _tag("tuple", [_tagged(part, depth + 1) for part in value])
    if kind is bytes:
        return _tag("bytes", _base64(value))
    return _tagged_scalar(value)


def _tagged_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if _TAG not in value and all(type(key) is str and _is_plain_text(key) for key in value):
        return {key: _tagged(part, depth + 1) for key, part in value.items()}
    items = [[_tagged(key, depth + 1), _tagged(part, depth + 1)] for key, part in value.items()]
    return _tag("dict", items)


def _tagged_scalar(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is np.str_:
        return _tag("numpy.str_", _base64(str(value).encode("utf-8", "surrogatepass")))
    if kind is np.bytes_:
        return _tag("numpy.bytes_", _base64(bytes(value)))
    if isinstance(value, np.generic) and _NUMPY.fullmatch(value.dtype.str):
        tagged = _tag(value.dtype.str, _base64(value.tobytes()))
        if type(_untagged(tagged)) is kind:
            return tagged
    raise TypeError(f"{kind} cannot be written as JSON")


def _tag(name: str, content: Any) -> dict[str, Any]:
    return {_TAG: name, _OF: content}


def _untagged(found: dict[str, Any]) -> Any:
    """Returns the value of a tagged object; inner objects are already converted."""
    if _TAG not in found:
        return found
    name, content = found[_TAG], found[_OF]
    if name in _MAKERS:
        return _MAKERS[name](content)
    if isinstance(name, str) and _NUMPY.fullmatch(name):
        return np.frombuffer(_bytes(content), name)[0]
    raise ValueError(f"received an object with {_TAG!r}: {name!r:.60}, which this release does not support")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _text(text: str) -> str:
    return _bytes(text).decode("utf-8", "surrogatepass")


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "dict": dict,
    "numpy.bytes_": lambda text: np.bytes_(_bytes(text)),
    "numpy.str_": lambda text: np.str_(_text(text)),
    "str": _text,
    "tuple": tuple,
}


def _is_plain_text(text: str) -> bool:
    return text.isascii() or not _PAIR.search(text)


def _find_culprit(value: Any, where: str = "state", depth: int = 0) -> str:
    """Returns the path and value of the first part of a state that cannot be written as JSON."""
    if depth > _DEEPEST:
        return f"{where:.60}… is nested too deeply or contains itself"
    parts: Any = value.items() if type(value) is dict else ()
    if type(value) in (list, tuple):
        parts = enumerate(value)
    for key, part in parts:
        if _is_refused(key):
            return _find_culprit(key, f"the key {key!r:.60} of {where}", depth + 1)
        if _is_refused(part):
            return _find_culprit(part, f"{where}[{key!r}]", depth + 1)
    if type(value) is int:  # Python limits the number of digits
        return f"{where} is a whole number of {value.bit_length()} bits"
    return f"{where} is {value!r:.200} of type {type(value).__name__}"


def _is_refused(part: Any) -> bool:
    try:
        json.dumps(_tagged(part))
    except _REFUSED:
        return True
    return False
