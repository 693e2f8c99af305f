"""Convolution over images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers.nn._fully_connected import add_activity_cost, he_initializer
from towerpack_layers.nn._image_arguments import (
    DataFormat,
    here,
    read_count,
    read_data_format,
    read_padding,
    read_pair,
    require_channels,
    require_rank,
)
from towerpack_layers.registry._layer_variables import attach_variables
from towerpack_layers.registry._register_layer import register_layer

_Function = Callable[[Any], Any]


@register_layer(log_shape=True)
def Conv2D(
    x: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = 1,
    activation: _Function | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: _Function | None = None,
    bias_regularizer: _Function | None = None,
    activity_regularizer: _Function | None = None,
    split: int = 1,
) -> tf.Tensor:
    """Convolve a batch of images with learnt kernels.

    Variables, in the dtype of the input: ``W`` of shape ``[height, width, channels / split, filters]`` and
    ``b`` of shape ``[filters]``. Their regularizers add to ``tf.GraphKeys.REGULARIZATION_LOSSES``.

    Args:
        x: floating tensor of shape ``[N, H, W, C]``, or ``[N, C, H, W]`` with ``channels_first``; C is
            static.
        filters: number of output channels.
        kernel_size: height and width of the kernels, one number for both or two.
        strides: steps of the window, likewise.
        padding: ``same`` or ``valid``.
        data_format: ``channels_last`` or ``channels_first``.
        dilation_rate: distance of the kernel's taps; cannot go with ``strides`` above 1.
        activation: function applied to the result.
        use_bias: whether to add ``b``.
        kernel_initializer: for ``W``; by default normal with variance 2 / fan-in, after He et al., "Delving
            Deep into Rectifiers" (2015), arXiv:1502.01852.
        bias_initializer: for ``b``; zeros by default.
        kernel_regularizer: function of ``W`` that returns a scalar cost.
        bias_regularizer: function of ``b`` that returns a scalar cost.
        activity_regularizer: function of the output that returns a scalar cost.
        split: number of groups that the channels of input and output are divided into; each group of filters
            sees its own group of input channels.

    Returns:
        Tensor of the input's dtype and format, with ``filters`` channels; ``.variables`` holds ``W`` and
        ``b``.

    Raises:
        ValueError: an argument out of range, an input that is not 4-D or whose channels are unknown, or
            channels that ``split`` does not divide.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Conv2D
        >>> with tf.Graph().as_default():
        ...     Conv2D("conv0", tf.ones([2, 28, 28, 1]), 32, 3, activation=tf.nn.relu).shape
        TensorShape([2, 28, 28, 32])
    """
    call = here("Conv2D")
    require_rank(call, x, 4)
    form = read_data_format(call, data_format)
    steps, dilations = read_pair(call, "strides", strides), read_pair(call, "dilation_rate", dilation_rate)
    if max(steps) > 1 and max(dilations) > 1:
        raise ValueError(f"{call}: strides={strides} and dilation_rate={dilation_rate} cannot both exceed 1.")
    shape = [*read_pair(call, "kernel_size", kernel_size), *_channels(call, x, form, filters, split)]

    kernel = tf.get_variable("W", shape, x.dtype, kernel_initializer or he_initializer(), kernel_regularizer)
    # tf.nn.conv2d sees from the kernel's shape that the convolution is a grouped one.
    out = tf.nn.conv2d(
        x,
        kernel,
        strides=form.window(steps),
        padding=read_padding(call, padding),
        data_format=form.code,
        dilations=form.window(dilations),
    )
    bias = None
    if use_bias:
        initializer = bias_initializer or tf.zeros_initializer()
        bias = tf.get_variable("b", [filters], x.dtype, initializer, bias_regularizer)
        out = tf.nn.bias_add(out, bias, data_format=form.code)
    if activation is not None:
        out = activation(out)
    add_activity_cost(activity_regularizer, out)
    return attach_variables(tf.identity(out, "output"), W=kernel, b=bias)


def _channels(call: str, x: tf.Tensor, form: DataFormat, filters: int, split: int) -> tuple[int, int]:
    """Return the last two sizes of the kernel: input channels of one group, and all output channels."""
    channels = require_channels(call, x, form.channel)
    read_count(call, "filters", filters)
    read_count(call, "split", split)
    if channels % split or filters % split:
        raise ValueError(
            f"{call}: split={split} must divide both the {channels} channels of the input and "
            f"filters={filters}."
        )
    return channels // split, filters
