"""The window of a depthwise convolution: size, steps, dilations and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ...arguments import DataFormat, check_not_both, check_padding, check_pair

__all__ = ["DepthwiseWindow", "check_depthwise_window"]


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
