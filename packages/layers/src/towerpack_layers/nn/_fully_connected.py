"""The fully connected layer, and what layers with weights share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers.nn._image_arguments import here, read_count, require_rank
from towerpack_layers.registry._layer_variables import attach_variables
from towerpack_layers.registry._register_layer import register_layer

_Function = Callable[[Any], Any]


@register_layer(log_shape=True)
def FullyConnected(
    x: tf.Tensor,
    units: int,
    activation: _Function | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: _Function | None = None,
    bias_regularizer: _Function | None = None,
    activity_regularizer: _Function | None = None,
) -> tf.Tensor:
    """Multiply by a learnt matrix; all axes but the first are flattened before.

    Variables, in the dtype of the input: ``W`` of shape ``[features, units]`` and ``b`` of shape ``[units]``.
    Their regularizers add to ``tf.GraphKeys.REGULARIZATION_LOSSES``.

    Args:
        x: floating tensor of shape ``[N, ...]``, static but for N.
        units: number of outputs.
        activation: function applied to the result.
        use_bias: whether to add ``b``.
        kernel_initializer: for ``W``; by default normal with variance 2 / fan-in, as in ``Conv2D``.
        bias_initializer: for ``b``; zeros by default.
        kernel_regularizer: function of ``W`` that returns a scalar cost.
        bias_regularizer: function of ``b`` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor ``[N, units]`` of the input's dtype; ``.variables`` holds ``W`` and ``b``.

    Raises:
        ValueError: ``units`` is not positive, or the size of an axis to be flattened is unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected
        >>> with tf.Graph().as_default():
        ...     FullyConnected("fc0", tf.ones([2, 7, 7, 32]), 10).shape
        TensorShape([2, 10])
    """
    call = here("FullyConnected")
    x = _flatten(call, x)
    shape = [x.shape.as_list()[1], read_count(call, "units", units)]
    kernel = tf.get_variable("W", shape, x.dtype, kernel_initializer or he_initializer(), kernel_regularizer)
    out = tf.matmul(x, kernel)
    bias = None
    if use_bias:
        initializer = bias_initializer or tf.zeros_initializer()
        bias = tf.get_variable("b", [units], x.dtype, initializer, bias_regularizer)
        out = tf.nn.bias_add(out, bias)
    if activation is not None:
        out = activation(out)
    add_activity_cost(activity_regularizer, out)
    return attach_variables(tf.identity(out, "output"), W=kernel, b=bias)


def he_initializer() -> Any:
    """Return the default initializer of weights: normal, not truncated, of variance 2 / fan-in."""
    return tf.variance_scaling_initializer(2.0, mode="fan_in", distribution="untruncated_normal")


def add_activity_cost(regularizer: _Function | None, out: tf.Tensor) -> None:
    """Add the cost of a layer's output to the regularization losses, if there is a regularizer."""
    if regularizer is not None:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, regularizer(out))


def _flatten(call: str, x: tf.Tensor) -> tf.Tensor:
    rank = require_rank(call, x)
    sizes = x.shape.as_list()
    if rank < 2 or None in sizes[1:]:
        raise ValueError(
            f"{call}: the input needs two axes or more, of known size but for the first, got shape "
            f"{x.shape}. Use tf.reshape or set_shape."
        )
    # A static batch size stays static.
    return x if rank == 2 else tf.reshape(x, [-1 if sizes[0] is None else sizes[0], math.prod(sizes[1:])])
