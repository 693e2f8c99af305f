"""Batches of sequences: lengths, order in time, and steps over the time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "check_lengths",
    "last_of_each",
    "mark_steps",
    "mask_after_end",
    "reverse_in_time",
    "scan_times",
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


# Up to this many steps are unrolled, without overhead per step. A loop adds ops to each step, but the size of
# its graph does not depend on the number of steps.
_WRITTEN_OUT = 64

Tensors = Sequence[Any]
"""Tensors `[N, size]`."""


def scan_times(
    step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    inputs: Tensors,
    carry: Tensors,
    sizes: Sequence[int],
    backward: bool = False,
) -> tuple[Tensors, Tensors]:
    """Applies a function at each time step, with tensors carried from step to step.

    Args:
        step: function of the inputs of a time step and of the carried tensors; returns the outputs of the
            time step and the new carried tensors. All are lists of tensors `[N, size]`.
        inputs: tensors `[T, N, size]`; T is not zero.
        carry: the initial carried tensors.
        sizes: the sizes of the outputs.
        backward: whether to start at the last time step.

    Returns:
        The outputs, each `[T, N, size]`, and the final carried tensors.
    """
    times = inputs[0].shape[0]
    if times is None or times > _WRITTEN_OUT:
        return _loop(step, inputs, carry, sizes, backward)
    rows = list(zip(*(tf.unstack(tensor, times) for tensor in inputs)))
    results = []
    for row in reversed(rows) if backward else rows:
        outputs, carry = step(row, carry)
        results.append(outputs)
    columns = zip(*(reversed(results) if backward else results))
    return [tf.stack(column) for column in columns], carry


def _loop(
    step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    inputs: Tensors,
    carry: Tensors,
    sizes: Sequence[int],
    backward: bool,
) -> tuple[Tensors, Tensors]:
    """Scans in a `tf.while_loop`, with one array for all inputs and one for all outputs."""
    shape, dtype, widths = inputs[0].shape, inputs[0].dtype, [tensor.shape[2] for tensor in inputs]
    count = tf.shape(inputs[0])[0] if shape[0] is None else tf.constant(shape[0])
    queue = tf.TensorArray(dtype, count, element_shape=[shape[1], sum(widths)]).unstack(_join(inputs, 2))
    results = tf.TensorArray(dtype, count, element_shape=[shape[1], sum(sizes)])

    def body(number: tf.Tensor, results: Any, *carry: tf.Tensor) -> tuple[Any, ...]:
        time = count - 1 - number if backward else number
        outputs, news = step(_split(queue.read(time), widths, 1), carry)
        for new, old in zip(news, carry):
            new.set_shape(old.shape)
        return (number + 1, results.write(time, _join(outputs, 1)), *news)

    _, results, *carry = tf.while_loop(
        lambda number, *_: number < count, body, [tf.constant(0), results, *carry]
    )
    outputs = results.stack()
    outputs.set_shape([shape[0], shape[1], sum(sizes)])
    return _split(outputs, sizes, 2), carry


def _join(tensors: Tensors, axis: int) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, axis)


def _split(tensor: tf.Tensor, sizes: Sequence[int], axis: int) -> Tensors:
    return [tensor] if len(sizes) == 1 else tf.split(tensor, sizes, axis)
