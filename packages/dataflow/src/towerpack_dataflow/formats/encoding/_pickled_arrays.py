"""Pickles of arrays and Python's builtin types."""

from __future__ import annotations

import math
import pickle
import struct
from collections import OrderedDict
from typing import Any, Final, final

import numpy as np

from ..._errors import FormatError
from ._array_encoding import array_of, dtype_of, structure
from ._plain_pickle import Name, PlainPickle, Unbuilt, checked_key

__all__ = ["unpickle_arrays"]

_Broken = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, TypeError, ValueError,
    OverflowError, MemoryError, RecursionError, AssertionError, struct.error,
)  # fmt: skip
_DEEPEST = 32  # nested object arrays, which NumPy frees by recursion
_MOST_AXES = 32
_UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")


def unpickle_arrays(data: memoryview, allow_pickle: bool = False) -> Any:
    """Unpickles a datapoint.

    Args:
        data: a pickle of Python's `pickle` or `cloudpickle`.
        allow_pickle: whether the pickle may import and call any object by name. Without it, no code of the
            pickle is called: the value consists of Python's builtin types, arrays, their scalars and dtypes,
            and has no more bytes of arrays than the pickle.

    Raises:
        FormatError: the bytes are not a pickle, are damaged, or need a forbidden object.
    """
    try:
        # Errors of code allowed by the user are raised unchanged.
        return pickle.loads(data) if allow_pickle else _checked(_Arrays(data).load())
    except FormatError:
        raise
    except _Broken as error:
        raise FormatError(f"the record holds a pickle that cannot be read: {error!r}") from error


def _checked(value: Any) -> Any:
    """Returns a value after checking that it holds only plain data, at any depth."""
    seen, waiting = set(), [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in _CONTAINERS or (kind is np.ndarray and part.dtype.kind == "O"):
            if id(part) not in seen:
                seen.add(id(part))
                waiting += part.reshape(-1).tolist() if kind is np.ndarray else part
                waiting += part.values() if isinstance(part, dict) else ()
        elif kind not in _PLAIN and not isinstance(part, (np.generic, np.dtype)):
            raise ValueError(f"it holds a {kind.__name__}, which is not plain data")
    return value


_CONTAINERS = {list, tuple, dict, OrderedDict, set, frozenset}
_PLAIN = {str, bytes, bytearray, int, float, complex, bool, type(None), np.ndarray}


@final
class _Arrays:
    """The functions called by pickles of arrays, their scalars and builtin types.

    The arguments of one call have no more bytes than the pickle, since they are contained in it. A pickle
    that passed the same argument to many calls could fill the memory.
    """

    def __init__(self, data: memoryview) -> None:
        self._data, self._left = data, len(data)
        # Object arrays by id, with the arrays themselves, because ids of deleted objects are reused.
        self._depths: dict[int, tuple[Any, int]] = {}

    def load(self) -> Any:
        names = {
            ("numpy", "ndarray"): Name(None),
            ("numpy", "dtype"): Name(self._dtype),
            ("numpy._core.multiarray", "_reconstruct"): Name(self._array),
            ("numpy._core.multiarray", "scalar"): Name(self._scalar),
            ("numpy._core.numeric", "_frombuffer"): Name(self._array_of_buffer),
            ("_codecs", "encode"): Name(self._encoded),
            ("builtins", "bytearray"): Name(lambda content=b"": bytearray(self._raw(content))),
            ("builtins", "bytes"): Name(lambda content=b"": bytes(self._raw(content))),
            ("builtins", "complex"): Name(_complex),
            ("builtins", "frozenset"): Name(lambda items=(): frozenset(self._keys(items))),
            ("builtins", "set"): Name(lambda items=(): set(self._keys(items))),
            ("collections", "OrderedDict"): Name(self._ordered),
        }
        return PlainPickle(self._data, names).load()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("its arrays, strings and sets have more content than the pickle")

    def _raw(self, content: Any) -> Any:
        """Accepts only bytes; a number would be the size of memory to allocate."""
        if type(content) not in {bytes, bytearray}:
            raise ValueError(f"bytes are constructed from bytes, not from {type(content).__name__}")
        self._spend(len(content))
        return content

    def _keys(self, items: Any) -> list[Any]:
        if type(items) not in {list, tuple}:
            raise ValueError(f"a set is constructed from a list, not from {type(items).__name__}")
        self._spend(len(items))
        return [checked_key(item) for item in items]

    def _ordered(self, items: Any = ()) -> OrderedDict[Any, Any]:
        pairs = [(key, value) for key, value in items] if type(items) is list else []
        keys = self._keys([key for key, _ in pairs])
        return OrderedDict(zip(keys, [value for _, value in pairs]))

    def _encoded(self, text: Any, encoding: Any) -> bytes:
        """Returns the bytes that protocols before 3 write as text."""
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise ValueError("bytes must be text in latin1")
        self._spend(len(text))
        return text.encode("latin1")

    def _dtype(self, text: Any, align: Any = False, copy: Any = True) -> Unbuilt:
        return Unbuilt(lambda state: _dtype_of_state(text, state))

    def _array(self, kind: Any, shape: Any, code: Any) -> Unbuilt:
        """Returns the empty array at the start of an array's pickle."""
        if type(kind) is not Name or shape != (0,):
            raise ValueError("an array starts with another class or shape")
        return Unbuilt(self._array_of_state)

    def _array_of_state(self, state: Any) -> np.ndarray:
        _, shape, dtype, fortran, content = state
        if isinstance(dtype, np.dtype) and dtype.kind == "O":
            return self._object_array(shape, content)
        return self._array_of_buffer(content, dtype, shape, "F" if fortran else "C")

    def _array_of_buffer(
        self, content: Any, dtype: Any, shape: Any, order: Any, axes: Any = None
    ) -> np.ndarray:
        """Creates an array from its bytes, as protocol 5 does."""
        if not isinstance(dtype, np.dtype) or dtype.hasobject or type(content) not in {bytes, bytearray}:
            raise ValueError("an array is constructed from bytes and a dtype of plain values")
        self._spend(len(content))
        array = array_of(content, dtype, _axes(shape), "F" if order == "F" else "C")
        return array if axes is None else array.transpose(_axes(axes))

    def _object_array(self, shape: Any, items: Any) -> np.ndarray:
        if type(items) is not list or math.prod(_axes(shape)) != len(items):
            raise ValueError("an object array has another number of items")
        self._spend(len(items))
        depth = 1 + max((self._depths.get(id(item), (item, 0))[1] for item in items), default=0)
        if depth > _DEEPEST:
            raise ValueError(f"object arrays are nested more than {_DEEPEST} deep")
        array = np.empty(len(items), object)
        for place, item in enumerate(items):  # not array[:] = items, which would unpack items that are lists
            array[place] = item
        array = array.reshape(shape)
        self._depths[id(array)] = array, depth
        return array

    def _scalar(self, dtype: Any, content: Any = b"") -> Any:
        return self._array_of_buffer(content, dtype, (), "C")[()]


def _complex(real: Any, imaginary: Any) -> complex:
    if {type(real), type(imaginary)} != {float}:
        raise ValueError("a complex number is constructed from two floats")
    return complex(real, imaginary)


def _axes(shape: Any) -> tuple[int, ...]:
    if type(shape) is not tuple or len(shape) > _MOST_AXES:
        raise ValueError(f"an array has a shape that is not a tuple of up to {_MOST_AXES} axes")
    if not all(type(axis) is int and 0 <= axis < 2**63 for axis in shape):
        raise ValueError("an array has a shape with an invalid axis")
    return shape


def _dtype_of_state(text: Any, state: Any) -> np.dtype[Any]:
    """Creates a dtype from the arguments and the state in its pickle."""
    _, order, base, names, fields, itemsize, *_ = state
    if text in ("O", "O8", "O4"):
        return np.dtype(object)
    if order not in ("<", ">", "=", "|") or type(text) is not str:
        raise ValueError("a dtype has no byte order")
    if names is not None:
        return structure(names, fields, itemsize)
    if base is not None:
        return _repeated(*base)
    if text in ("M8", "m8"):
        text += _unit(state)
    return dtype_of(text).newbyteorder(order)


def _repeated(dtype: Any, shape: Any) -> np.dtype[Any]:
    """Creates the dtype of an array field."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not dtype.itemsize:
        raise ValueError("a dtype repeats other than plain values")
    return np.dtype((dtype, _axes(shape)))


def _unit(state: Any) -> str:
    """Returns the unit of times, such as `[25us]`; empty for a generic one."""
    if len(state) < 9:
        return ""
    _, (unit, count, divisor, _) = state[8]
    unit = unit.decode("ascii") if type(unit) is bytes else unit
    if unit == "generic":
        return ""
    if unit not in _UNITS or type(count) is not int or not 0 < count < 2**31 or divisor != 1:
        raise ValueError("a dtype of times has another unit")
    return f"[{count}{unit}]"
