"""Convolution over sequences."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import (
    KernelAndBias,
    TensorFunction,
    check_channels,
    check_count,
    check_data_format,
    check_not_both,
    check_padding,
    check_rank,
    layer_label,
)
from ...registry import register_layer
from ._convolve import convolve

__all__ = ["Conv1D"]


@register_layer(log_shape=True)
def Conv1D(
    x: tf.Tensor,
    filters: int,
    kernel_size: int,
    strides: int = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int = 1,
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Convolves a batch of sequences with learnt kernels.

    Variables, in the dtype of the input: `W` of shape `[width, channels, filters]` and `b` of shape
    `[filters]`. Costs of their regularizers are added to `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, W, C]`, or `[N, C, W]` with `channels_first`; C is static.
        filters: number of output channels.
        kernel_size: width of the kernels.
        strides: steps of the window.
        padding: `same` or `valid`.
        data_format: `channels_last` or `channels_first`.
        dilation_rate: distance of the kernel's taps; cannot be combined with `strides` above 1.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        kernel_initializer: for `W`; by default normal with variance 2 / fan-in, as in `Conv2D`.
        bias_initializer: for `b`; zeros by default.
        kernel_regularizer: function of `W` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor of the input's dtype and format, with `filters` channels; `.variables` holds `W` and `b`.

    Raises:
        ValueError: an argument is out of range, the input is not 3-D, or its channels are unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Conv1D
        >>> with tf.Graph().as_default():
        ...     Conv1D("conv0", tf.ones([2, 100, 16]), 32, 5, strides=2).shape
        TensorShape([2, 50, 32])
    """
    call = layer_label("Conv1D")
    check_rank(call, x, 3)
    form = check_data_format(call, data_format)
    step, dilation = check_count(call, "strides", strides), check_count(call, "dilation_rate", dilation_rate)
    check_not_both(call, step, dilation)
    # A sequence is treated as an image of height 1.
    height, channel = form.spatial[0], 2 if form.channel == 3 else 1
    channels, filters = check_channels(call, x, channel), check_count(call, "filters", filters)
    shape = [check_count(call, "kernel_size", kernel_size), channels, filters]

    initializers, regularizers = (
        (kernel_initializer, bias_initializer),
        (kernel_regularizer, bias_regularizer),
    )
    functions = activation, activity_regularizer
    parts = KernelAndBias(call, shape, x.dtype, use_bias, initializers, regularizers, *functions)
    padding = check_padding(call, padding)
    kernel, bias = parts.make()
    images, kernels = tf.expand_dims(x, height), tf.expand_dims(kernel, 0)
    out = convolve(images, kernels, bias, form, padding, (1, step), (1, dilation))
    return parts.finish(tf.squeeze(out, [height]), kernel, bias)
