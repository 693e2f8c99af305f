"""Checks of common layer arguments: inputs, counts, sizes, padding and data formats."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

__all__ = [
    "CHANNELS_LAST",
    "DataFormat",
    "check_channels",
    "check_count",
    "check_data_format",
    "check_function",
    "check_not_both",
    "check_padding",
    "check_pair",
    "check_rank",
    "is_number",
    "layer_label",
    "shape2d",
    "shape4d",
]


_PADDINGS = ("same", "valid")


@final
@attrs.frozen
class DataFormat:
    """The order of the axes of an image batch.

    Args:
        name: the name for users, `channels_last` or `channels_first`.
        code: the name in `tf.nn`, `NHWC` or `NCHW`.
        channel: the channel axis.
        spatial: the axes of height and width.
    """

    name: str
    code: str
    channel: int
    spatial: tuple[int, int]

    def window(self, pair: tuple[int, int]) -> list[int]:
        """Converts a pair over height and width to the list of four numbers for `tf.nn`."""
        return [1, *pair, 1] if self.channel == 3 else [1, 1, *pair]


CHANNELS_LAST = DataFormat("channels_last", "NHWC", 3, (1, 2))
_CHANNELS_FIRST = DataFormat("channels_first", "NCHW", 1, (2, 3))
_FORMATS = {known: form for form in (CHANNELS_LAST, _CHANNELS_FIRST) for known in (form.name, form.code)}


def layer_label(layer: str) -> str:
    """Returns the label of the current layer for errors: `Conv2D('conv0')`."""
    scope = tf.get_variable_scope().name
    return f"{layer}({scope!r})" if scope else layer


def check_data_format(call: str, data_format: str) -> DataFormat:
    """Checks the name of a data format and returns the format; `NHWC` and `NCHW` are also accepted.

    Raises:
        ValueError: the name is unknown.
    """
    if data_format not in _FORMATS:
        raise ValueError(
            f"{call}: data_format must be 'channels_last' or 'channels_first', received {data_format!r}."
        )
    return _FORMATS[data_format]


def check_padding(call: str, padding: str) -> str:
    """Checks a padding and returns it in the spelling of `tf.nn`.

    Raises:
        ValueError: the padding is neither `same` nor `valid`, in upper or lower case.
    """
    if not isinstance(padding, str) or padding.lower() not in _PADDINGS:
        raise ValueError(f"{call}: padding must be 'same' or 'valid', received {padding!r}.")
    return padding.upper()


def check_pair(call: str, argument: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Checks a size over height and width, one or two numbers, and returns two numbers.

    Raises:
        ValueError: the value is not a positive int or a pair of them.
    """
    pair = (value, value) if not isinstance(value, Sequence) else tuple(value)
    if len(pair) != 2 or not all(_is_count(size) for size in pair):
        raise ValueError(f"{call}: {argument} must be a positive int or two of them, received {value!r}.")
    return int(pair[0]), int(pair[1])


def check_not_both(call: str, strides: int | Sequence[int], dilation_rate: int | Sequence[int]) -> None:
    """Checks that strides and dilation rates do not both exceed 1.

    Raises:
        ValueError: both exceed 1, over height or width.
    """
    largest = [max(value) if isinstance(value, Sequence) else value for value in (strides, dilation_rate)]
    if min(largest) > 1:
        raise ValueError(f"{call}: strides={strides} and dilation_rate={dilation_rate} cannot both exceed 1.")


def check_count(call: str, argument: str, value: int) -> int:
    """Checks a count and returns it as a Python int.

    Raises:
        ValueError: the value is not a positive int, of Python or NumPy.
    """
    if not _is_count(value):
        raise ValueError(f"{call}: {argument} must be a positive int, received {value!r}.")
    return int(value)


def check_function(call: str, argument: str, value: object) -> None:
    """Checks that an argument is a function or None.

    Raises:
        TypeError: the argument is something else, such as a name.
    """
    if value is not None and not callable(value):
        raise TypeError(
            f"{call}: {argument} must be a function of a tensor, such as tf.nn.relu or l2_regularizer(1e-4), "
            f"received {value!r}."
        )


def is_number(value: object) -> bool:
    """Returns whether a value is a real number of Python or NumPy, not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


def check_rank(call: str, x: Any, *ranks: int) -> int:
    """Checks and returns the rank of a layer's input.

    Raises:
        TypeError: the input is not a tensor.
        ValueError: the rank is unknown, or not among `ranks` (if any are given).
    """
    if not tf.is_tensor(x):
        raise TypeError(
            f"{call}: the input must be a tensor, received {type(x).__name__}. Use tf.convert_to_tensor, or "
            f"check the order of the arguments: name, input, then all others."
        )
    rank = x.shape.rank
    if rank is None or (ranks and rank not in ranks):
        wanted = " or ".join(map(str, ranks)) or "known"
        raise ValueError(
            f"{call}: the input's rank must be {wanted}, received a tensor of shape {x.shape}. Use "
            f"tf.reshape or set_shape."
        )
    return int(rank)


def check_channels(call: str, x: tf.Tensor, axis: int) -> int:
    """Checks that the size of the input's channel axis is static and returns it.

    Raises:
        ValueError: the size is unknown.
    """
    size = x.shape.as_list()[axis]
    if size is None:
        raise ValueError(
            f"{call}: the size of axis {axis} of the input must be known to create variables, received shape "
            f"{x.shape}. Use set_shape."
        )
    return int(size)


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
