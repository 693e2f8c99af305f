"""Convolution of images with a kernel, in groups if the kernel has fewer channels than the images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import DataFormat, TensorFunction, compute_examples, compute_images, has_all_kernels

__all__ = ["compute_windows", "convolve"]


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
