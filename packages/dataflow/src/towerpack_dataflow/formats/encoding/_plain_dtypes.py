"""The dtypes allowed in files and messages: plain values and structures of them, no Python objects."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

__all__ = ["array_of", "described", "dtype_of", "structure"]

_PLAIN = re.compile(r"[<>|=]?([biufcmM]\d{1,2}|[mM]8\[[0-9A-Za-z]+\]|[SUV]\d{1,9})")
_DEEPEST = 8  # nested structures; NumPy traverses them recursively


def dtype_of(description: Any, depth: int = 0) -> np.dtype[Any]:
    """Creates a dtype from its description by `described` or `numpy.dtype.descr`.

    Args:
        description: a string such as `"<f8"`, `"<U5"` or `"<M8[ns]"`, or a sequence of name, description and
            optional shape for each field. Strings may be bytes.
        depth: depth of the enclosing structure.

    Raises:
        ValueError, TypeError: the description is invalid.
    """
    if isinstance(description, (list, tuple)):
        if depth == _DEEPEST:
            raise ValueError(f"a dtype has structures nested more than {_DEEPEST} deep")
        return np.dtype([_field(depth, *field) for field in description])
    text = _text(description)
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"an array has the dtype {text!r}, which does not hold plain values")
    return np.dtype(text)


def _field(depth: int, name: Any, description: Any, shape: Any = ()) -> Any:
    return _text(name), dtype_of(description, depth + 1), _axes(shape)


def described(dtype: np.dtype[Any]) -> Any:
    """Returns the description of a dtype; `None` if no description restores an equal dtype."""
    try:
        description = dtype.str if dtype.names is None else dtype.descr
        found = dtype_of(description)
    except (ValueError, TypeError):
        return None
    return description if dtype.itemsize and (found, found.type) == (dtype, dtype.type) else None


def array_of(raw: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any = "C") -> np.ndarray:
    """Creates an array with a copy of its bytes.

    Raises:
        ValueError: the shape needs another number of bytes, or values of no size.
    """
    size = math.prod(shape) * dtype.itemsize
    if size != len(raw) or (shape and not dtype.itemsize):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {size} bytes; found {len(raw)}")
    return (
        np.frombuffer(bytearray(raw), dtype).reshape(shape, order=order) if size else np.empty(shape, dtype)
    )


def structure(names: Any, fields: Any, itemsize: Any) -> np.dtype[Any]:
    """Creates the dtype of a structure from existing dtypes of its fields.

    Args:
        names: names of the fields, a tuple.
        fields: dtype and offset by name, a dict.
        itemsize: size of the structure in bytes.

    Raises:
        ValueError, TypeError, LookupError: a part is invalid, or holds Python objects.
    """
    if type(names) is not tuple or type(fields) is not dict or type(itemsize) is not int or not names:
        raise ValueError("a structure consists of names, fields and a size")
    formats, offsets = zip(*(fields[_text(name)] for name in names))
    if not all(isinstance(one, np.dtype) and one.itemsize and not one.hasobject for one in formats):
        raise ValueError("a structure consists only of plain values")
    if not all(type(offset) is int and offset >= 0 for offset in offsets):
        raise ValueError("a structure has offsets from 0 up")
    if _depth(formats) >= _DEEPEST:
        raise ValueError(f"a dtype has structures nested more than {_DEEPEST} deep")
    return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": itemsize})


def _depth(formats: Any) -> int:
    """Counts levels of structures; each level visits a dtype once."""
    depth, level = 0, {id(one): one for one in formats}
    while level := {id(part): part for one in level.values() for part in _parts(one)}:
        depth += 1
    return depth


def _parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    if dtype.subdtype is not None:
        return [dtype.subdtype[0]]
    return [field[0] for field in (dtype.fields or {}).values()]


def _text(part: Any) -> str:
    if isinstance(part, bytes):
        return part.decode("latin-1")
    if type(part) is not str:
        raise ValueError(f"a dtype is described by strings; found {type(part).__name__}")
    return part


def _axes(shape: Any) -> tuple[int, ...]:
    axes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    if not all(type(axis) is int and axis >= 0 for axis in axes):
        raise ValueError(f"an array field has the shape {shape!r}")
    return axes
