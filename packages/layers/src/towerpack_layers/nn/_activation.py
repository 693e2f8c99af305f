"""Activation functions that have variables of their own."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from ..registry import register_layer
from .normalization import BatchNorm

__all__ = ["BNReLU"]


@register_layer(use_scope=None)
def BNReLU(x: tf.Tensor, name: str = "bn") -> tf.Tensor:
    """Normalises the batch, then rectifies it: a function for `activation=BNReLU`.

    As an activation, it needs no name: its variables lie in the scope of the layer that it belongs to, as
    `conv0/bn/gamma`. Called by itself, `BNReLU("block1", x)` makes `block1/bn/gamma`.
    Options of the normalisation are set by `argscope(BatchNorm, ...)`.

    Args:
        x: 2-D or 4-D tensor, as for `BatchNorm`.
        name: the name of the `BatchNorm` inside.

    Returns:
        Tensor of the input's shape and dtype.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import BNReLU, Conv2D, TowerContext
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     out = Conv2D("conv0", tf.ones([2, 8, 8, 1]), 4, 3, use_bias=False, activation=BNReLU)
        ...     [v.name for v in tf.trainable_variables()]
        ['conv0/W:0', 'conv0/bn/gamma:0', 'conv0/bn/beta:0']
    """
    return tf.nn.relu(BatchNorm(name, x), name="relu")
