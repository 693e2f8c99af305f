"""Depthwise separable convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import (
    DataFormat,
    KernelAndBias,
    TensorFunction,
    check_channels,
    check_count,
    check_data_format,
    check_rank,
    layer_label,
)
from ...registry import attach_variables, register_layer
from ._convolve import compute_windows
from ._depthwise_window import check_depthwise_window

__all__ = ["SeparableConv2D"]


@register_layer(log_shape=True)
def SeparableConv2D(
    x: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = 1,
    depth_multiplier: int = 1,
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = None,
    depthwise_regularizer: TensorFunction | None = None,
    pointwise_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Convolves each channel of images with separate kernels, then mixes the channels of each pixel.

    After Chollet, "Xception" (2017), arXiv:1610.02357. No bias or activation is between the two convolutions.

    Variables, in the dtype of the input, with the names of slim's layer except for the bias:
    `depthwise_weights` of shape `[height, width, channels, depth_multiplier]`, `pointwise_weights` of shape
    `[1, 1, channels * depth_multiplier, filters]`, and `b` of shape `[filters]`. Costs of their regularizers
    are added to `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`; C is
            static.
        filters: number of output channels.
        kernel_size: height and width of the kernels, one number for both or two.
        strides: steps of the window, the same over height and width.
        padding: `same` or `valid`.
        data_format: `channels_last` or `channels_first`.
        dilation_rate: distance of the kernel's taps; cannot be combined with `strides` above 1.
        depth_multiplier: number of kernels for each input channel.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        depthwise_initializer: for `depthwise_weights`; by default normal with variance
            2 / (height * width).
        pointwise_initializer: for `pointwise_weights`; by default normal with variance
            2 / (channels * depth_multiplier).
        bias_initializer: for `b`; zeros by default.
        depthwise_regularizer: function of `depthwise_weights` that returns a scalar cost.
        pointwise_regularizer: function of `pointwise_weights` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor of the input's dtype and format, with `filters` channels; `.variables` holds the variables by
        their names.

    Raises:
        ValueError: an argument is out of range, the input is not 4-D, or its channels are unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import SeparableConv2D
        >>> with tf.Graph().as_default():
        ...     SeparableConv2D("sconv0", tf.ones([2, 28, 28, 16]), 32, 3).shape
        TensorShape([2, 28, 28, 32])
    """
    call = layer_label("SeparableConv2D")
    check_rank(call, x, 4)
    form = check_data_format(call, data_format)
    window = check_depthwise_window(call, kernel_size, strides, dilation_rate, padding)
    channels, filters = check_channels(call, x, form.channel), check_count(call, "filters", filters)
    times = check_count(call, "depth_multiplier", depth_multiplier)

    depthwise = KernelAndBias(
        call,
        [*window.size, channels, times],
        x.dtype,
        use_bias=False,
        initializers=(depthwise_initializer, None),
        regularizers=(depthwise_regularizer, None),
        activation=None,
        activity_regularizer=None,
        name="depthwise_weights",
        argument="depthwise",
        fan_in=math.prod(window.size),
    )
    pointwise = KernelAndBias(
        call,
        [1, 1, channels * times, filters],
        x.dtype,
        use_bias,
        initializers=(pointwise_initializer, bias_initializer),
        regularizers=(pointwise_regularizer, bias_regularizer),
        activation=activation,
        activity_regularizer=activity_regularizer,
        name="pointwise_weights",
        argument="pointwise",
    )
    (first, _), (second, bias) = depthwise.make(), pointwise.make()

    def compute(images: tf.Tensor, form: DataFormat) -> tf.Tensor:
        separate = window.convolve(images, first, form)
        return tf.nn.conv2d(separate, second, 1, "SAME", data_format=form.code)

    out = compute_windows(compute, x, bias, form)
    out = pointwise.finish(out, second, bias)
    return attach_variables(out, depthwise_weights=first, pointwise_weights=second, b=bias)
