"""Transposed convolution, which enlarges images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import (
    DataFormat,
    KernelAndBias,
    TensorFunction,
    axis_sizes,
    check_channels,
    check_count,
    check_data_format,
    check_padding,
    check_pair,
    check_rank,
    layer_label,
    static_sizes,
)
from ..registry._layer_info import REQUIRED
from ..registry._register_layer import register_alias, register_layer
from ._conv import compute_windows

__all__ = ["Conv2DTranspose", "Deconv2D"]


@register_layer(log_shape=True)
def Conv2DTranspose(
    x: tf.Tensor,
    filters: int = REQUIRED,
    kernel_size: int | Sequence[int] = REQUIRED,
    strides: int | Sequence[int] = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    activation: TensorFunction | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    bias_regularizer: TensorFunction | None = None,
    activity_regularizer: TensorFunction | None = None,
) -> tf.Tensor:
    """Applies a transposed convolution to a batch of images, after Zeiler et al. (2010), CVPR.

    With `same` padding, height and width are multiplied by `strides`. With `valid`, they become
    `size * stride + max(kernel - stride, 0)`. `Deconv2D` is the old name of this layer.

    Variables, in the dtype of the input: `W` of shape `[height, width, filters, channels]` and `b` of shape
    `[filters]`. Costs of their regularizers are added to `tf.GraphKeys.REGULARIZATION_LOSSES`.

    Args:
        x: floating tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`; C is
            static.
        filters: number of output channels.
        kernel_size: height and width of the kernels, one number for both or two.
        strides: the factors of height and width, one number for both or two.
        padding: `same` or `valid`.
        data_format: `channels_last` or `channels_first`.
        activation: function applied to the result.
        use_bias: whether to add `b`.
        kernel_initializer: for `W`; by default normal with variance 2 / (height * width * filters).
        bias_initializer: for `b`; zeros by default.
        kernel_regularizer: function of `W` that returns a scalar cost.
        bias_regularizer: function of `b` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.

    Returns:
        Tensor of the input's dtype and format, with `filters` channels; `.variables` holds `W` and `b`.

    Raises:
        ValueError: an argument is out of range, the input is not 4-D, or its channels are unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Conv2DTranspose
        >>> with tf.Graph().as_default():
        ...     Conv2DTranspose("deconv0", tf.ones([2, 7, 7, 64]), 32, 4, strides=2).shape
        TensorShape([2, 14, 14, 32])
    """
    call = layer_label("Conv2DTranspose")
    check_rank(call, x, 4)
    form, padding = check_data_format(call, data_format), check_padding(call, padding)
    size, steps = check_pair(call, "kernel_size", kernel_size), check_pair(call, "strides", strides)
    channels, filters = check_channels(call, x, form.channel), check_count(call, "filters", filters)
    shape = [*size, filters, channels]

    initializers, regularizers = (
        (kernel_initializer, bias_initializer),
        (kernel_regularizer, bias_regularizer),
    )
    functions = activation, activity_regularizer
    parts = KernelAndBias(
        call, shape, x.dtype, use_bias, initializers, regularizers, *functions, outputs=filters
    )
    kernel, bias = parts.make()
    grown = [
        (step, max(taps - step, 0) if padding == "VALID" else 0)
        for taps, step in zip(size, steps, strict=True)
    ]

    def compute(images: tf.Tensor, form: DataFormat) -> tf.Tensor:
        sizes = _output_sizes(images, form, filters, grown)
        window = {"strides": form.window(steps), "padding": padding, "data_format": form.code}
        out = tf.nn.conv2d_transpose(images, kernel, sizes, **window)
        out.set_shape(static_sizes(sizes))
        return out

    out = compute_windows(compute, x, bias, form)
    return parts.finish(out, kernel, bias)


Deconv2D = register_alias("Deconv2D", Conv2DTranspose)
"""The old name of `Conv2DTranspose` in Tensorpack: the same layer, also for `argscope`."""


def _output_sizes(
    images: tf.Tensor, form: DataFormat, filters: int, grown: Sequence[tuple[int, int]]
) -> list[Any]:
    """Returns the size of each axis of the result."""
    sizes = axis_sizes(images)
    for axis, (factor, more) in zip(form.spatial, grown, strict=True):
        sizes[axis] = sizes[axis] * factor + more
    sizes[form.channel] = filters
    return sizes
