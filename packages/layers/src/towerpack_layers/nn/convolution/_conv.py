"""Convolution over images."""

from __future__ import annotations

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
    check_not_both,
    check_padding,
    check_pair,
    check_rank,
    layer_label,
)
from ...registry import register_layer
from ._convolve import convolve

__all__ = ["Conv2D"]


@register_layer(log_shape=True)
def Conv2D(
    x: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = 1,
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
    split: int = 1,
) -> tf.Tensor:
    """Convolves a batch of images with learnt kernels.

    Variables, in the dtype of the input: `W` of shape `[height, width, channels / split, filters]` and `b` of
    shape `[filters]`. Costs of their regularizers are added to `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`; C is
            static.
        filters: number of output channels.
        kernel_size: height and width of the kernels, one number for both or two.
        strides: steps of the window, likewise.
        padding: `same` or `valid`.
        data_format: `channels_last` or `channels_first`.
        dilation_rate: distance of the kernel's taps; cannot be combined with `strides` above 1.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        kernel_initializer: for `W`; by default normal with variance 2 / fan-in, after He et al., "Delving
            Deep into Rectifiers" (2015), arXiv:1502.01852.
        bias_initializer: for `b`; zeros by default.
        kernel_regularizer: function of `W` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.
        split: number of groups of the input and output channels; each group of filters uses only its group of
            input channels.

    Returns:
        Tensor of the input's dtype and format, with `filters` channels; `.variables` holds `W` and
        `b`.

    Raises:
        ValueError: an argument is out of range, the input is not 4-D, or its number of channels is unknown or
            not divisible by `split`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Conv2D
        >>> with tf.Graph().as_default():
        ...     Conv2D("conv0", tf.ones([2, 28, 28, 1]), 32, 3, activation=tf.nn.relu).shape
        TensorShape([2, 28, 28, 32])
    """
    call = layer_label("Conv2D")
    check_rank(call, x, 4)
    form = check_data_format(call, data_format)
    steps, dilations = check_pair(call, "strides", strides), check_pair(call, "dilation_rate", dilation_rate)
    check_not_both(call, strides, dilation_rate)
    shape = [*check_pair(call, "kernel_size", kernel_size), *_channels(call, x, form, filters, split)]

    initializers, regularizers = (
        (kernel_initializer, bias_initializer),
        (kernel_regularizer, bias_regularizer),
    )
    functions = activation, activity_regularizer
    parts = KernelAndBias(call, shape, x.dtype, use_bias, initializers, regularizers, *functions)
    padding = check_padding(call, padding)
    kernel, bias = parts.make()
    elementwise, parts = parts.take_elementwise()
    out = convolve(x, kernel, bias, form, padding, steps, dilations, elementwise)
    return parts.finish(out, kernel, bias)


def _channels(call: str, x: tf.Tensor, form: DataFormat, filters: int, split: int) -> tuple[int, int]:
    """Returns the last two sizes of the kernel: the input channels of one group, and all output channels."""
    channels = check_channels(call, x, form.channel)
    filters, split = check_count(call, "filters", filters), check_count(call, "split", split)
    if channels % split or filters % split:
        raise ValueError(
            f"{call}: split={split} must divide both the {channels} channels of the input and "
            f"filters={filters}."
        )
    return channels // split, filters
