"""States of recurrent cells: structure, zeros and checks."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["check_state", "zero_state"]


def zero_state(sizes: Any, batch_size: int | tf.Tensor, dtype: tf.DType) -> Any:
    """Returns zeros of the structure of `sizes`, each `[batch_size, size]`."""
    return tf.nest.map_structure(lambda size: tf.zeros(tf.stack([batch_size, size]), dtype), sizes)


def check_state(call: str, argument: str, state: Any, sizes: Any, batch: int | None, dtype: tf.DType) -> Any:
    """Checks a state given by the user, and returns it as tensors in the structure of `sizes`.

    Args:
        call: the label of the call, for errors.
        argument: the argument's name, for errors.
        state: the state; lists may replace tuples.
        sizes: the cell's `state_size`.
        batch: the static size of the batch.
        dtype: the input's dtype, to which the state is cast.

    Raises:
        TypeError: a part of the state is not floating.
        ValueError: the state has another structure, or a part has another shape.
    """
    wanted, given = tf.nest.flatten(sizes), tf.nest.flatten(state)
    if len(given) != len(wanted) or not _same_nesting(state, sizes):
        raise ValueError(
            f"{call}: {argument} must have the structure of the cell's state_size, {_text(sizes)}; received "
            f"{_text(state)}."
        )
    parts = [
        _check_part(call, argument, part, tf.TensorShape([batch, size]), dtype)
        for part, size in zip(given, wanted)
    ]
    return tf.nest.pack_sequence_as(sizes, parts)


def _check_part(call: str, argument: str, part: Any, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    tensor = tf.convert_to_tensor(part) if tf.is_tensor(part) else tf.convert_to_tensor(part, dtype)
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"{call}: {argument} must be floating, like the input, received {tensor.dtype.name}. Use tf.cast."
        )
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"{call}: a part of {argument} must have the shape [batch, size], here {shape}; received "
            f"{tensor.shape}."
        )
    # Always a new tensor, since its static shape is refined.
    tensor = tf.identity(tf.cast(tensor, dtype))
    tensor.set_shape(shape)
    return tensor


def _same_nesting(state: Any, sizes: Any) -> bool:
    if not isinstance(sizes, tuple):
        return not isinstance(state, (tuple, list))
    return (
        isinstance(state, (tuple, list))
        and len(state) == len(sizes)
        and all(map(_same_nesting, state, sizes))
    )


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    return str(value) if isinstance(value, int) else type(value).__name__
