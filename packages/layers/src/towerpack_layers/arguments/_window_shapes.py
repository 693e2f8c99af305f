"""Shapes of windows, for layers of one's own: over height and width, and as ops of `tf.nn` take them."""

from __future__ import annotations

from collections.abc import Sequence

from ._layer_arguments import check_data_format, check_pair

__all__ = ["shape2d", "shape4d"]


def shape2d(size: int | Sequence[int]) -> list[int]:
    """Returns a size over height and width as a list of two.

    Args:
        size: a positive int for both, or two.

    Raises:
        ValueError: it is neither.

    Example:
        >>> shape2d(3), shape2d((1, 5))
        ([3, 3], [1, 5])
    """
    return list(check_pair("shape2d", "size", size))


def shape4d(size: int | Sequence[int], data_format: str = "channels_last") -> list[int]:
    """Returns a size over height and width as the list of four that ops such as `tf.nn.conv2d` take.

    Args:
        size: a positive int for both, or two.
        data_format: `channels_last` or `NHWC`, `channels_first` or `NCHW`.

    Raises:
        ValueError: one of them is something else.

    Example:
        >>> shape4d(2), shape4d((1, 5), "NCHW")
        ([1, 2, 2, 1], [1, 1, 1, 5])
    """
    return check_data_format("shape4d", data_format).window(check_pair("shape4d", "size", size))
