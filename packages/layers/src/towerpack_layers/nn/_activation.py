"""Activation functions with variables."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import (
    axis_sizes,
    check_channels,
    check_count,
    check_rank,
    is_number,
    layer_label,
    resolve_initializer,
)
from ..registry._layer_info import REQUIRED
from ..registry._layer_scope import attach_variables
from ..registry._register_layer import register_layer
from ._batch_norm import BatchNorm

__all__ = ["BNReLU", "Maxout", "PReLU", "SoftMax"]


@register_layer(use_scope=None)
def BNReLU(x: tf.Tensor, name: str = "bn") -> tf.Tensor:
    """Normalises the batch, then rectifies it: a function for `activation=BNReLU`.

    As an activation, it needs no name: its variables are in the scope of the layer, as `conv0/bn/gamma`. A
    direct call `BNReLU("block1", x)` makes `block1/bn/gamma`. Set options of the normalisation with
    `argscope(BatchNorm, ...)`.

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


@register_layer(use_scope=None)
def PReLU(x: tf.Tensor, init: Any = 0.001, name: str = "prelu") -> tf.Tensor:
    """Multiplies negative values by a learnt slope, after He et al. (2015), arXiv:1502.01852.

    The variable is the scalar `alpha`, in the dtype of the input. As a function for `activation=PReLU`, it
    needs no name: the variable is in the scope of the layer, as `conv0/alpha`.

    Args:
        x: floating tensor of any shape.
        init: initial value of the slope, or an initializer.
        name: the name of the result if the layer has no name; otherwise the output is named `output`.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `alpha`.

    Raises:
        TypeError: `init` is neither a number nor an initializer.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import PReLU
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     out = PReLU("act", tf.constant([-2.0, 2.0]), init=0.5)
        ...     session.run(tf.global_variables_initializer())
        ...     print(out.variables.alpha.name, session.run(out))
        act/alpha:0 [-1.  2.]
    """
    call = layer_label("PReLU")
    check_rank(call, x)
    initializer = resolve_initializer(call, "init", init, init, [])
    alpha = tf.get_variable("alpha", [], x.dtype, initializer)
    # Not a selection between x and alpha * x: its gradient by alpha is undefined for an infinite input.
    out = tf.add(tf.nn.relu(x), alpha * tf.minimum(x, tf.zeros([], x.dtype)), name=name)
    return attach_variables(out, alpha=alpha)


@register_layer(use_scope=None)
def Maxout(x: tf.Tensor, num_unit: int = REQUIRED) -> tf.Tensor:
    """Takes the largest of each group of channels, after Goodfellow et al. (2013), arXiv:1302.4389.

    Args:
        x: tensor of shape `[N, ..., C]`; C is static.
        num_unit: number of neighbouring channels in a group; it must divide C.

    Returns:
        Tensor of shape `[N, ..., C / num_unit]` and the input's dtype.

    Raises:
        ValueError: the input has fewer than two axes, or its number of channels is unknown or not divisible
            by `num_unit`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Maxout
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     print(session.run(Maxout("maxout", tf.constant([[1.0, 2.0, 4.0, 3.0]]), 2)))
        [[2. 4.]]
    """
    call = layer_label("Maxout")
    if check_rank(call, x) < 2:
        raise ValueError(
            f"{call}: the input's rank must be at least 2, received a tensor of shape {x.shape}."
        )
    channels, num_unit = check_channels(call, x, -1), check_count(call, "num_unit", num_unit)
    if channels % num_unit:
        raise ValueError(f"{call}: num_unit={num_unit} must divide the {channels} channels of the input.")
    groups = tf.reshape(x, [*axis_sizes(x)[:-1], channels // num_unit, num_unit])
    return tf.reduce_max(groups, -1)


@register_layer(use_scope=None)
def SoftMax(x: tf.Tensor, use_temperature: bool = False, temperature_init: float = 1.0) -> tf.Tensor:
    """Computes probabilities over the last axis, optionally with a learnt temperature.

    After Hinton et al., "Distilling the Knowledge in a Neural Network" (2015), arXiv:1503.02531. With a
    temperature, the variable is the scalar `invtemp`, 1 / temperature, in the dtype of the input.

    Args:
        x: floating tensor with at least one axis.
        use_temperature: whether to divide by a learnt temperature.
        temperature_init: initial value of the temperature.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `invtemp` or is empty.

    Raises:
        ValueError: the input is a scalar, or `temperature_init` is not a positive number.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import SoftMax
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     print(session.run(SoftMax("softmax", tf.zeros([1, 4]))))
        [[0.25 0.25 0.25 0.25]]
    """
    call = layer_label("SoftMax")
    if check_rank(call, x) < 1:
        raise ValueError(f"{call}: the input's rank must be at least 1, received a scalar.")
    if not is_number(temperature_init) or not temperature_init > 0:
        raise ValueError(
            f"{call}: temperature_init must be a positive number, received {temperature_init!r}."
        )
    if not use_temperature:
        return attach_variables(tf.nn.softmax(x))
    initializer = tf.constant_initializer(1 / temperature_init)
    inverse = tf.get_variable("invtemp", [], x.dtype, initializer)
    return attach_variables(tf.nn.softmax(x * inverse), invtemp=inverse)
