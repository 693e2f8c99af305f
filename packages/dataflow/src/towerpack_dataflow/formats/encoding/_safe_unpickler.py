"""Pickles that hold arrays and Python's builtin types alone."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any, Final, final

import numpy as np

from ..._errors import FormatError

__all__ = ["unpickle_arrays"]

_Broken = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, TypeError, ValueError,
    OverflowError, MemoryError, RecursionError, AssertionError,
)  # fmt: skip


def unpickle_arrays(data: memoryview, allow_pickle: bool = False) -> Any:
    """Unpickles a datapoint.

    Args:
        data: what Python's `pickle` or `cloudpickle` wrote.
        allow_pickle: whether the pickle may import and call what it names.

    Raises:
        FormatError: the bytes are no pickle, are damaged, or need something that is not allowed.
    """
    try:
        # An error of code that the user has allowed is theirs, and comes as it is.
        return pickle.loads(data) if allow_pickle else _ArrayUnpickler(io.BytesIO(data)).load()
    except FormatError:
        raise
    except _Broken as error:
        raise FormatError(f"the record holds a pickle that cannot be read: {error!r}") from error


@final
class _ArrayUnpickler(pickle.Unpickler):
    """Knows what arrays, their scalars and builtin containers are made by, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a pickle may call.

        Raises:
            FormatError: the pickle names something else.
        """
        place = module.replace("numpy.core", "numpy._core").replace("__builtin__", "builtins")
        found = _ALLOWED.get((place, name))
        if found is None:
            raise FormatError(
                f"the record holds a pickle that needs {module}.{name}, which could execute anything; give "
                "allow_pickle=True if the file comes from someone whom you would let run a program here"
            )
        return found


# What stands for the class of arrays. The class itself could be called, for an array of any size.
_ARRAY_CLASS: Final = "ndarray"


def _new_array(kind: Any, shape: tuple[int, ...], code: bytes) -> np.ndarray:
    """Makes the empty array that an array's pickle begins with, which then gets its shape and bytes."""
    if kind is not _ARRAY_CLASS or tuple(shape) != (0,):
        raise ValueError(f"an array begins as one of {kind} and shape {shape}")
    return np.empty(0, np.int8)


def _array_of_buffer(buffer: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
    """Makes an array of its bytes, as protocol 5 does."""
    array = np.frombuffer(bytearray(_bytes(buffer)), dtype).reshape(shape, order=order)
    return array if axes is None else array.transpose(axes)


def _scalar(dtype: np.dtype[Any], raw: Any) -> Any:
    if dtype.hasobject or len(raw) != dtype.itemsize:
        raise ValueError(f"a scalar of {dtype} has {len(raw)} bytes")
    return np.frombuffer(bytes(raw), dtype)[0]


def _bytes(content: Any = b"") -> Any:
    """Takes bytes alone; a number would be the size of memory to allocate."""
    if not isinstance(content, (bytes, bytearray)):
        raise ValueError(f"bytes are made of bytes, not of {type(content).__name__}")
    return content


def _bytearray(content: Any = b"") -> bytearray:
    return bytearray(_bytes(content))


def _encoded(text: str, encoding: str) -> bytes:
    """Makes the bytes that protocols before 3 write as text."""
    if encoding != "latin1":
        raise ValueError(f"bytes are encoded as latin1, not {encoding}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ARRAY_CLASS,
    ("numpy", "dtype"): np.dtype,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy._core.numeric", "_frombuffer"): _array_of_buffer,
    ("_codecs", "encode"): _encoded,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "bytes"): _bytes,
    ("builtins", "complex"): complex,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "set"): set,
    ("collections", "OrderedDict"): OrderedDict,
}
