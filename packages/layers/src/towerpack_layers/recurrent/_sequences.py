"""Batches of sequences: lengths and order in time."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "check_lengths",
    "last_of_each",
    "mark_steps",
    "mask_after_end",
    "reverse_in_time",
    "swap_batch_and_time",
    "with_a_time",
]


def check_lengths(call: str, lengths: Any, x: tf.Tensor) -> tf.Tensor | None:
    """Checks the lengths of sequences and returns int32; non-constant ones are checked at run time.

    Args:
        call: the label of the call, for errors.
        lengths: the argument: integers `[N]`, or `None`.
        x: the sequences `[N, T, ...]`.

    Raises:
        TypeError: the lengths are not integers.
        ValueError: the lengths have another shape, or are outside of 0 to T.
    """
    if lengths is None:
        return None
    given = tf.convert_to_tensor(lengths)
    if not given.dtype.is_integer:
        raise TypeError(f"{call}: lengths must be integers, received {given.dtype.name}. Use tf.cast.")
    if not given.shape.is_compatible_with(x.shape[:1]):
        raise ValueError(
            f"{call}: lengths must have the shape {x.shape[:1]}, one for each sequence, received "
            f"{given.shape}."
        )
    values, times = tf.get_static_value(given), x.shape[1]
    if values is not None and times is not None and ((values < 0) | (values > times)).any():
        raise ValueError(
            f"{call}: lengths must be between 0 and {times}, the number of time steps; received "
            f"{values.tolist()}."
        )
    given = tf.cast(given, tf.int32)
    given.set_shape(x.shape[:1])
    if values is not None and times is not None:
        return given
    count = tf.shape(x)[1]
    fit = tf.reduce_all((given >= 0) & (given <= count))
    message = f"{call}: lengths must be between 0 and the number of time steps;"
    check = tf.debugging.Assert(fit, [message, "there are", count, "and received were", given])
    with tf.control_dependencies([check]):
        return tf.identity(given)


def swap_batch_and_time(x: tf.Tensor) -> tf.Tensor:
    """Transposes sequences `[N, T, C]` to `[T, N, C]`, or back."""
    return tf.transpose(x, [1, 0, 2])


def reverse_in_time(x: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    """Reverses sequences `[T, N, C]` in time; steps after an end are not moved."""
    if lengths is None:
        return tf.reverse(x, [0])
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


def with_a_time(x: tf.Tensor) -> tf.Tensor:
    """Returns sequences `[T, N, C]`, or one time step of zeros if T is zero."""
    if x.shape[0]:
        return x
    missing = tf.cast(tf.equal(tf.shape(x)[0], 0), tf.int32)
    # Padding of size 0 copies no data.
    padded = tf.pad(x, tf.constant([[0, 1], [0, 0], [0, 0]]) * missing)
    padded.set_shape([None, *x.shape[1:]])
    return padded


def mark_steps(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns ones at the steps of sequences `[T, N, C]` and zeros after their ends, `[T, N, 1]`."""
    times = tf.expand_dims(tf.range(tf.shape(x)[0]), 1)
    marks = tf.expand_dims(tf.cast(times < lengths, x.dtype), 2)
    marks.set_shape([*x.shape[:2], 1])
    return marks


def mask_after_end(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns sequences `[T, N, C]` with zeros after the end of each."""
    return tf.where_v2(mark_steps(x, lengths) > 0, x, tf.zeros([], x.dtype))


def last_of_each(first: tf.Tensor, values: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the value at the last step of each sequence; `first` for one without steps.

    Args:
        first: tensor `[N, size]`.
        values: tensor `[T, N, size]`; T is not zero.
        lengths: the numbers of steps, `[N]`.
    """
    places = tf.stack([tf.maximum(lengths - 1, 0), tf.range(tf.shape(values)[1])], axis=1)
    last = tf.where_v2(tf.expand_dims(lengths > 0, 1), tf.gather_nd(values, places), first)
    last.set_shape(first.shape)
    return last
