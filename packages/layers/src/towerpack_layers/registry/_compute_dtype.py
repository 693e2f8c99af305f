"""The compute dtype of layers in a block, if it differs from the dtype of their inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["cast_arguments", "compute_dtype"]

_dtype: ContextVar[tf.DType | None] = ContextVar("towerpack_layers_compute_dtype", default=None)


@contextlib.contextmanager
def compute_dtype(dtype: tf.DType) -> Iterator[None]:
    """Sets the compute dtype of all layers in a block, only for this thread."""
    before = _dtype.get()
    _dtype.set(dtype)
    try:
        yield
    finally:
        _dtype.set(before)


def cast_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a layer, with float32 tensors cast to the compute dtype.

    All tensors are cast, not only the input, since a layer can combine only tensors of one dtype. Variables
    are not cast: the layer must receive the variable itself.
    """
    dtype = _dtype.get()
    if dtype is None:
        return args, dict(kwargs)

    def cast(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(_is_float32(part) for part in value):
            return [cast(part) for part in value]
        return tf.cast(value, dtype) if _is_float32(value) else value

    return tuple(map(cast, args)), {key: cast(value) for key, value in kwargs.items()}


def _is_float32(value: object) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype == tf.float32
