"""Concatenation as a layer, for chains of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_rank, layer_label
from ..registry import register_layer

__all__ = ["ConcatWith"]


@register_layer(use_scope=None)
def ConcatWith(x: tf.Tensor, tensor: tf.Tensor | Sequence[tf.Tensor], dim: int) -> tf.Tensor:
    """Appends other tensors to the input along an axis.

    Args:
        x: tensor of known rank, at least 1.
        tensor: one or more tensors to append, with the input's dtype and, except along this axis, shape.
        dim: the axis; -1 is the last.

    Returns:
        Tensor of the input's dtype.

    Raises:
        ValueError: `dim` is not an axis of the input, or a shape does not match.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LinearWrap
        >>> with tf.Graph().as_default():
        ...     LinearWrap(tf.ones([2, 3])).ConcatWith(tf.ones([2, 4]), 1).FullyConnected("fc", 5)().shape
        TensorShape([2, 5])
    """
    call = layer_label("ConcatWith")
    rank = check_rank(call, x)
    if isinstance(dim, bool) or dim not in range(-rank, rank):
        raise ValueError(f"{call}: dim must be an axis of a tensor of shape {x.shape}, received {dim!r}.")
    wanted = x.shape.as_list()
    wanted[dim] = None
    others = [tf.convert_to_tensor(other, x.dtype) for other in _as_list(tensor)]
    for other in others:
        if not other.shape.is_compatible_with(wanted):
            raise ValueError(
                f"{call}: tensor must have the shape {tf.TensorShape(wanted)}, received one of shape "
                f"{other.shape}."
            )
    return tf.concat([x, *others], int(dim))


def _as_list(tensor: Any) -> list[Any]:
    return list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
