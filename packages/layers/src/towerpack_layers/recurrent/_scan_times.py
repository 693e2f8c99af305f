"""Steps over the time axis of a batch of sequences: unrolled, or as a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["scan_times"]

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
