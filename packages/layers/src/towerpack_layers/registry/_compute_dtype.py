"""The dtype that layers compute in, where a block asks for another one than that of their inputs."""

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
    """Makes all layers of a block compute in a dtype; it holds for this thread alone."""
    before = _dtype.get()
    _dtype.set(dtype)
    try:
        yield
    finally:
        _dtype.set(before)


def cast_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a layer, float32 tensors among them in the dtype to compute in.

    All tensors count, not the input alone: what a layer combines must be of one dtype. Variables do not: a
    layer that is given one means that one.
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
