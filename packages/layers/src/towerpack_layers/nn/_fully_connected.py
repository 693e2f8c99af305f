"""The fully connected layer."""

from __future__ import annotations

import math
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import KernelAndBias, TensorFunction, check_count, check_rank, layer_label
from ..registry._layer_info import REQUIRED
from ..registry._register_layer import register_layer

__all__ = ["FullyConnected"]


@register_layer(log_shape=True)
def FullyConnected(
    x: tf.Tensor,
    units: int = REQUIRED,
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Multiplies the input by a learnt matrix, after flattening all axes except the first.

    Variables, in the dtype of the input: `W` of shape `[features, units]` and `b` of shape `[units]`. Costs
    of their regularizers are added to `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, ...]`, static except for N.
        units: number of outputs per example.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        kernel_initializer: for `W`; by default normal with variance 2 / fan-in, as in `Conv2D`.
        bias_initializer: for `b`; zeros by default.
        kernel_regularizer: function of `W` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor `[N, units]` of the input's dtype; `.variables` holds `W` and `b`.

    Raises:
        ValueError: `units` is not a positive int, or the size of an axis to flatten is unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected
        >>> with tf.Graph().as_default():
        ...     FullyConnected("fc0", tf.ones([2, 7, 7, 32]), 10).shape
        TensorShape([2, 10])
    """
    call = layer_label("FullyConnected")
    x = _flatten(call, x)
    shape = [x.shape.as_list()[1], check_count(call, "units", units)]
    initializers, regularizers = (
        (kernel_initializer, bias_initializer),
        (kernel_regularizer, bias_regularizer),
    )
    functions = activation, activity_regularizer
    parts = KernelAndBias(call, shape, x.dtype, use_bias, initializers, regularizers, *functions)
    kernel, bias = parts.make()
    out = tf.matmul(x, kernel)
    if bias is not None:
        out = tf.nn.bias_add(out, bias)
    return parts.finish(out, kernel, bias)


def _flatten(call: str, x: tf.Tensor) -> tf.Tensor:
    """Flattens the input to a matrix with one row per example."""
    rank = check_rank(call, x)
    sizes = x.shape.as_list()
    if rank < 2 or None in sizes[1:]:
        raise ValueError(
            f"{call}: the input needs at least two axes with known sizes except for the first, received "
            f"shape {x.shape}. Use tf.reshape or set_shape."
        )
    # Keep a static batch size static.
    return x if rank == 2 else tf.reshape(x, [-1 if sizes[0] is None else sizes[0], math.prod(sizes[1:])])
