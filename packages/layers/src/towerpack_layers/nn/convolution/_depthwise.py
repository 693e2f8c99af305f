"""Convolution of each channel separately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import (
    KernelAndBias,
    TensorFunction,
    check_channels,
    check_count,
    check_data_format,
    check_rank,
    layer_label,
)
from ...registry import register_layer
from ._convolve import compute_windows
from ._depthwise_window import check_depthwise_window

__all__ = ["DepthwiseConv2D"]


@register_layer(log_shape=True)
def DepthwiseConv2D(
    x: tf.Tensor,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = 1,
    depth_multiplier: int = 1,
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Convolves each channel of images with separate kernels.

    Variables, in the dtype of the input: `W` of shape `[height, width, channels, depth_multiplier]` and `b`
    of shape `[channels * depth_multiplier]`. Costs of their regularizers are added to
    `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`; C is
            static.
        kernel_size: height and width of the kernels, one number for both or two.
        strides: steps of the window, the same over height and width.
        padding: `same` or `valid`.
        data_format: `channels_last` or `channels_first`.
        dilation_rate: distance of the kernel's taps; cannot be combined with `strides` above 1.
        depth_multiplier: number of kernels, and of output channels, for each input channel.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        kernel_initializer: for `W`; by default normal with variance 2 / (height * width).
        bias_initializer: for `b`; zeros by default.
        kernel_regularizer: function of `W` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor of the input's dtype and format; the outputs of channel `c` start at channel
        `c * depth_multiplier`; `.variables` holds `W` and `b`.

    Raises:
        ValueError: an argument is out of range, the input is not 4-D, or its channels are unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import DepthwiseConv2D
        >>> with tf.Graph().as_default():
        ...     DepthwiseConv2D("dconv0", tf.ones([2, 28, 28, 16]), 3, strides=2, depth_multiplier=2).shape
        TensorShape([2, 14, 14, 32])
    """
    call = layer_label("DepthwiseConv2D")
    check_rank(call, x, 4)
    form = check_data_format(call, data_format)
    window = check_depthwise_window(call, kernel_size, strides, dilation_rate, padding)
    channels = check_channels(call, x, form.channel)
    times = check_count(call, "depth_multiplier", depth_multiplier)
    shape = [*window.size, channels, times]

    initializers, regularizers = (
        (kernel_initializer, bias_initializer),
        (kernel_regularizer, bias_regularizer),
    )
    functions = activation, activity_regularizer
    outputs, taps = channels * times, math.prod(window.size)
    parts = KernelAndBias(
        call, shape, x.dtype, use_bias, initializers, regularizers, *functions, outputs=outputs, fan_in=taps
    )
    kernel, bias = parts.make()

    out = compute_windows(lambda images, form: window.convolve(images, kernel, form), x, bias, form)
    return parts.finish(out, kernel, bias)
