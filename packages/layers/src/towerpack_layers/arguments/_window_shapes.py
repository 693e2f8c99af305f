"""Shapes of windows for custom layers: over height and width, or in the form for `tf.nn`."""

from __future__ import annotations

from collections.abc import Sequence

from ._layer_arguments import check_data_format, check_pair

__all__ = ["shape2d", "shape4d"]


def shape2d(size: int | Sequence[int]) -> list[int]:
    """Returns a size over height and width as a list of two.

    Args:
        size: a positive int for both, or two.

    Raises:
        ValueError: the size is not a positive int or a pair of them.

    Example:
        >>> shape2d(3), shape2d((1, 5))
        ([3, 3], [1, 5])
    """
    return list(check_pair("shape2d", "size", size))


def shape4d(size: int | Sequence[int], data_format: str = "channels_last") -> list[int]:
    """Returns a size over height and width as a list of four, for ops such as `tf.nn.conv2d`.

    Args:
        size: a positive int for both, or two.
        data_format: `channels_last` or `NHWC`, `channels_first` or `NCHW`.

    Raises:
        ValueError: an argument has another form.

    Example:
        >>> shape4d(2), shape4d((1, 5), "NCHW")
        ([1, 2, 2, 1], [1, 1, 1, 5])
    """
    return check_data_format("shape4d", data_format).window(check_pair("shape4d", "size", size))
