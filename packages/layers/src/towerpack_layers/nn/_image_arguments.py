"""Reading the arguments that layers over images share: inputs, sizes, padding and data formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import tensorflow.compat.v1 as tf

_PADDINGS = ("same", "valid")


@attrs.frozen
class DataFormat:
    """Where the axes of an image batch are.

    Args:
        name: as users write it, ``channels_last`` or ``channels_first``.
        code: as ``tf.nn`` writes it.
        channel: the channel axis.
        spatial: the axes of height and width.
    """

    name: str
    code: str
    channel: int
    spatial: tuple[int, int]

    def window(self, pair: tuple[int, int]) -> list[int]:
        """Return a pair over height and width as the list of four that ``tf.nn`` takes."""
        return [1, *pair, 1] if self.channel == 3 else [1, 1, *pair]


_CHANNELS_LAST = DataFormat("channels_last", "NHWC", 3, (1, 2))
_CHANNELS_FIRST = DataFormat("channels_first", "NCHW", 1, (2, 3))
_FORMATS = {known: form for form in (_CHANNELS_LAST, _CHANNELS_FIRST) for known in (form.name, form.code)}


def here(layer: str) -> str:
    """Return how an error calls the layer being built, such as ``Conv2D('conv0')``."""
    scope = tf.get_variable_scope().name
    return f"{layer}({scope!r})" if scope else layer


def read_data_format(call: str, data_format: str) -> DataFormat:
    """Return the data format of this name; ``NHWC`` and ``NCHW`` are understood as well.

    Raises:
        ValueError: there is none.
    """
    if data_format not in _FORMATS:
        raise ValueError(
            f"{call}: data_format must be 'channels_last' or 'channels_first', got {data_format!r}."
        )
    return _FORMATS[data_format]


def read_padding(call: str, padding: str) -> str:
    """Return the padding as ``tf.nn`` writes it.

    Raises:
        ValueError: it is neither ``same`` nor ``valid``, in whatever case.
    """
    if not isinstance(padding, str) or padding.lower() not in _PADDINGS:
        raise ValueError(f"{call}: padding must be 'same' or 'valid', got {padding!r}.")
    return padding.upper()


def read_pair(call: str, argument: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Return a size over height and width, given as one number for both or as two.

    Raises:
        ValueError: it is something else, or not positive.
    """
    pair = (value, value) if not isinstance(value, Sequence) else tuple(value)
    if len(pair) != 2 or not all(isinstance(size, int) and size > 0 for size in pair):
        raise ValueError(f"{call}: {argument} must be a positive int or two of them, got {value!r}.")
    return pair


def read_count(call: str, argument: str, value: int) -> int:
    """Return a number of things.

    Raises:
        ValueError: it is not a positive int.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{call}: {argument} must be a positive int, got {value!r}.")
    return value


def require_rank(call: str, x: Any, *ranks: int) -> int:
    """Return the rank of a layer's input.

    Raises:
        TypeError: the input is no tensor.
        ValueError: its rank is unknown, or not among ``ranks`` (if any are given).
    """
    if not tf.is_tensor(x):
        raise TypeError(
            f"{call}: the input must be a tensor, got {type(x).__name__}. Use tf.convert_to_tensor, or check "
            f"the order of the arguments: name, input, then the others."
        )
    rank = x.shape.rank
    if rank is None or (ranks and rank not in ranks):
        wanted = " or ".join(map(str, ranks)) or "known"
        raise ValueError(
            f"{call}: the input's rank must be {wanted}, got a tensor of shape {x.shape}. Use tf.reshape or "
            f"set_shape."
        )
    return int(rank)


def require_channels(call: str, x: tf.Tensor, axis: int) -> int:
    """Return the static size of the input's channel axis.

    Raises:
        ValueError: it is unknown.
    """
    size = x.shape.as_list()[axis]
    if size is None:
        raise ValueError(
            f"{call}: the size of axis {axis} of the input must be known to make variables, got shape "
            f"{x.shape}. Use set_shape."
        )
    return int(size)
