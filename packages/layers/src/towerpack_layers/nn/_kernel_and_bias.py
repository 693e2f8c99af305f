"""Kernel, bias, activation and activity cost: the parts that `Conv2D` and `FullyConnected` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..registry import attach_variables

__all__ = ["TensorFunction", "finish_output", "make_bias", "make_kernel"]

TensorFunction = Callable[[Any], Any]


def make_kernel(
    shape: Sequence[int], dtype: tf.DType, initializer: Any, regularizer: TensorFunction | None
) -> tf.Variable:
    """Makes the variable `W` of the layer being built.

    Args:
        shape: the kernel's shape; the last axis is that of the outputs.
        dtype: the kernel's dtype.
        initializer: its initializer; by default normal, not truncated, with variance 2 / fan-in.
        regularizer: function of the kernel that returns a scalar cost, for the regularization losses.
    """
    he = tf.variance_scaling_initializer(2.0, mode="fan_in", distribution="untruncated_normal")
    return tf.get_variable("W", shape, dtype, initializer or he, regularizer)


def make_bias(
    size: int, dtype: tf.DType, initializer: Any, regularizer: TensorFunction | None
) -> tf.Variable:
    """Makes the variable `b` of the layer being built; its initializer is zeros by default."""
    return tf.get_variable("b", [size], dtype, initializer or tf.zeros_initializer(), regularizer)


def finish_output(
    out: tf.Tensor,
    activation: TensorFunction | None,
    activity_regularizer: TensorFunction | None,
    **variables: Any,
) -> tf.Tensor:
    """Applies the activation, collects the cost of the output, and attaches the variables to the output.

    Args:
        out: the layer's result before the activation.
        activation: function applied to the result.
        activity_regularizer: function of the output that returns a scalar cost.
        **variables: the layer's variables by short name.

    Returns:
        The layer's output, named `output`.
    """
    if activation is not None:
        out = activation(out)
    if activity_regularizer is not None:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, activity_regularizer(out))
    return attach_variables(tf.identity(out, "output"), **variables)
