"""Convolution over images and sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    compute_examples,
    compute_images,
    has_all_kernels,
    layer_label,
)
from ..registry._layer_info import REQUIRED
from ..registry._register_layer import register_layer

__all__ = ["Conv1D", "Conv2D", "compute_windows", "convolve"]


def convolve(
    x: tf.Tensor,
    kernel: Any,
    bias: Any,
    form: DataFormat,
    padding: str,
    steps: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    activation: TensorFunction | None = None,
) -> tf.Tensor:
    """Returns the convolution of images with a kernel, plus a bias.

    Args:
        x: floating tensor of four axes, with a static number of channels.
        kernel: tensor `[height, width, channels / groups, filters]`.
        bias: tensor `[filters]`, or `None`.
        form: the data format of `x` and of the result.
        padding: `SAME` or `VALID`.
        steps: steps of the window over height and width.
        dilations: distance of the kernel's taps over height and width.
        activation: elementwise function, applied directly after the bias. TensorFlow fuses convolution, bias
            and activation in one kernel if no op is between them.
    """

    def compute(images: tf.Tensor, form: DataFormat) -> tf.Tensor:
        options = {
            "strides": form.window(steps),
            "dilations": form.window(dilations),
            "padding": padding,
            "data_format": form.code,
        }
        return _convolve_groups(images, kernel, form, options)

    return compute_windows(compute, x, bias, form, activation)


def compute_windows(
    function: Callable[[tf.Tensor, DataFormat], tf.Tensor],
    x: tf.Tensor,
    bias: Any,
    form: DataFormat,
    activation: TensorFunction | None = None,
) -> tf.Tensor:
    """Applies a function to the windows of images of any layout and number, and adds a bias.

    Args:
        function: a function of images and their data format that returns images of this format.
        x: floating tensor of four axes.
        bias: tensor with one value per channel of the result, or `None`.
        form: the data format of `x` and of the result.
        activation: as in `convolve`.
    """

    def compute(images: tf.Tensor, form: DataFormat) -> tf.Tensor:
        out = function(images, form)
        out = out if bias is None else tf.nn.bias_add(out, bias, data_format=form.code)
        return out if activation is None else activation(out)

    return compute_examples(lambda examples: compute_images(compute, examples, form), x)


def _convolve_groups(images: tf.Tensor, kernel: Any, form: DataFormat, options: dict[str, Any]) -> tf.Tensor:
    groups = images.shape.as_list()[form.channel] // kernel.shape.as_list()[2]
    if has_all_kernels(images.dtype) or (groups == 1 and max(options["dilations"]) == 1):
        # tf.nn.conv2d infers a grouped convolution from the kernel's shape.
        return tf.nn.conv2d(images, kernel, **options)
    parts = zip(tf.split(images, groups, form.channel), tf.split(kernel, groups, 3), strict=True)
    return tf.concat([_convolve_dilated(part, own, form, options) for part, own in parts], form.channel)


def _convolve_dilated(images: tf.Tensor, kernel: Any, form: DataFormat, options: dict[str, Any]) -> tf.Tensor:
    strides, dilations = ([options[name][axis] for axis in form.spatial] for name in ("strides", "dilations"))
    # Unlike tf.nn.conv2d, it makes dilated taps adjacent before the convolution.
    return tf.nn.convolution(
        images, kernel, options["padding"], strides, dilations, data_format=options["data_format"]
    )


@register_layer(log_shape=True)
def Conv2D(
    x: tf.Tensor,
    filters: int = REQUIRED,
    kernel_size: int | Sequence[int] = REQUIRED,
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


@register_layer(log_shape=True)
def Conv1D(
    x: tf.Tensor,
    filters: int = REQUIRED,
    kernel_size: int = REQUIRED,
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
