"""Convolution of each channel separately, also followed by a pointwise convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..arguments import (
    DataFormat,
    KernelAndBias,
    TensorFunction,
    check_channels,
    check_count,
    check_data_format,
    check_not_both,
    check_padding,
    check_pair,
    check_rank,
    layer_label,
)
from ..registry._layer_info import REQUIRED
from ..registry._layer_scope import attach_variables
from ..registry._register_layer import register_layer
from ._conv import compute_windows

__all__ = ["DepthwiseConv2D", "DepthwiseWindow", "SeparableConv2D", "check_depthwise_window"]


@final
@attrs.frozen
class DepthwiseWindow:
    """The window that slides over each channel.

    Args:
        size: height and width of the kernels.
        steps: steps over height and width, which must be equal.
        dilations: distances of the taps over height and width.
        padding: `SAME` or `VALID`.
    """

    size: tuple[int, int]
    steps: tuple[int, int]
    dilations: tuple[int, int]
    padding: str

    def convolve(self, images: tf.Tensor, kernel: Any, form: DataFormat) -> tf.Tensor:
        """Convolves each channel with separate kernels `[height, width, channels, times]`."""
        out = tf.nn.depthwise_conv2d(
            images, kernel, form.window(self.steps), self.padding, self.dilations, data_format=form.code
        )
        out.set_shape(self._static_shape(images, kernel, form))
        return out

    def _static_shape(self, images: tf.Tensor, kernel: Any, form: DataFormat) -> list[int | None]:
        """Returns the shape of the result, which TensorFlow infers only partly with dilations."""
        sizes = images.shape.as_list()
        _, _, channels, times = kernel.shape.as_list()
        for axis, taps, step, dilation in zip(
            form.spatial, self.size, self.steps, self.dilations, strict=True
        ):
            if sizes[axis] is not None:
                lost = (taps - 1) * dilation if self.padding == "VALID" else 0
                sizes[axis] = max(-(-(sizes[axis] - lost) // step), 0)
        sizes[form.channel] = channels * times
        return list(sizes)


def check_depthwise_window(
    call: str,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int],
    dilation_rate: int | Sequence[int],
    padding: str,
) -> DepthwiseWindow:
    """Checks the arguments of a window and returns the window.

    Raises:
        ValueError: an argument is out of range, the two strides differ, or both strides and dilations exceed
            1.
    """
    steps, dilations = check_pair(call, "strides", strides), check_pair(call, "dilation_rate", dilation_rate)
    if steps[0] != steps[1]:
        raise ValueError(
            f"{call}: strides must be the same over height and width, since TensorFlow's depthwise "
            f"convolution requires it; received {strides!r}."
        )
    check_not_both(call, strides, dilation_rate)
    size = check_pair(call, "kernel_size", kernel_size)
    return DepthwiseWindow(size, steps, dilations, check_padding(call, padding))


@register_layer(log_shape=True)
def DepthwiseConv2D(
    x: tf.Tensor,
    kernel_size: int | Sequence[int] = REQUIRED,
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


@register_layer(log_shape=True)
def SeparableConv2D(
    x: tf.Tensor,
    filters: int = REQUIRED,
    kernel_size: int | Sequence[int] = REQUIRED,
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
