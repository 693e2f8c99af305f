"""Operations on gradients, both dense tensors and the touched rows of a large variable."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["Pairs", "check_pairs", "describe_rows", "map_values", "sum_rows", "values_of", "variable_name"]

Pairs = list[tuple[Any, tf.Variable]]
"""Gradients (tensors, `tf.IndexedSlices`, or None without a gradient) with their variables."""


def variable_name(variable: tf.Variable) -> str:
    """Returns the variable's name in the model, without the scope of a tower's own copy."""
    return re.sub(r"^tower\d+/", "", str(variable.op.name))


def map_values(gradient: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a function to the values of a gradient, dense or `tf.IndexedSlices`."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def values_of(gradient: Any) -> tf.Tensor:
    """Returns the values of a gradient; for `tf.IndexedSlices`, those of the touched rows."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def sum_rows(gradient: Any) -> Any:
    """Makes the rows of `tf.IndexedSlices` unique; returns a dense gradient unchanged.

    A row that was looked up twice occurs twice, and its gradient is the sum. Nonlinear operations (a norm, a
    clipping) would be wrong on the separate parts.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    values.set_shape(tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def describe_rows(gradient: Any) -> list[Any]:
    """Returns the arguments for printing a gradient with `tf.print`."""
    if isinstance(gradient, tf.IndexedSlices):
        return ["rows", gradient.indices, gradient.values]
    return [gradient]


def check_pairs(owner: str, grads: Sequence[tuple[Any, tf.Variable]]) -> Pairs:
    """Returns `grads` as a list.

    Raises:
        TypeError: `grads` is not a list of pairs of gradient and variable.
    """
    pairs = list(grads) if isinstance(grads, (list, tuple)) or hasattr(grads, "__next__") else None
    if pairs is None or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError(
            f"{owner}: expected a list of (gradient, variable) pairs, as compute_gradients returns it; "
            f"received {grads!r}."
        )
    return pairs
