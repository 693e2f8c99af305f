"""Layers that normalise each example separately, independent of training mode and batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_count, check_rank, layer_label
from ..registry._register_layer import register_layer
from ._batch_statistics import check_epsilon, find_channels, make_scale_and_offset, name_result

__all__ = ["GroupNorm", "InstanceNorm", "LayerNorm"]


@register_layer
def LayerNorm(
    x: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Normalises each example by its own mean and variance, after Ba et al. (2016), arXiv:1607.06450.

    Both are computed over all axes except the batch axis; scale and offset are per channel.

    Variables, in the dtype of the input, or float32 for a half-precision input: `gamma` and `beta`.

    Args:
        x: float tensor, `[N, C]` or an image batch; the number of channels is static.
        epsilon: added to the variance.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`, for 4-D inputs.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma` and `beta`.

    Raises:
        TypeError: the input is no float tensor.
        ValueError: an argument is out of range, or the input has another rank or unknown channels.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LayerNorm
        >>> with tf.Graph().as_default():
        ...     LayerNorm("ln", tf.ones([2, 3])).variables.all()[0].name
        'ln/gamma:0'
    """
    call = layer_label("LayerNorm")
    check_rank(call, x, 2, 4)
    code, channels = _check(call, x, data_format)
    epsilon = check_epsilon(call, epsilon)
    affine = make_scale_and_offset(
        call, channels, _wide(x), center=center, scale=scale, gamma_initializer=gamma_initializer
    )
    values = tf.cast(x, _wide(x))
    return _finish(x, code, _normalize(values, range(1, x.shape.rank), epsilon), affine)


@register_layer
def InstanceNorm(
    x: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Normalises each channel of each image by its own mean and variance, after Ulyanov et al. (2016).

    Variables, in the dtype of the input, or float32 for a half-precision input: `gamma` and `beta`.

    Args:
        x: float tensor, an image batch; the number of channels is static.
        epsilon: added to the variance.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma` and `beta`.

    Raises:
        TypeError: the input is no float tensor.
        ValueError: an argument is out of range, or the input has another rank or unknown channels.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import InstanceNorm
        >>> with tf.Graph().as_default():
        ...     InstanceNorm("in", tf.ones([2, 8, 8, 3])).shape
        TensorShape([2, 8, 8, 3])
    """
    call = layer_label("InstanceNorm")
    check_rank(call, x, 4)
    code, channels = _check(call, x, data_format)
    epsilon = check_epsilon(call, epsilon)
    affine = make_scale_and_offset(
        call, channels, _wide(x), center=center, scale=scale, gamma_initializer=gamma_initializer
    )
    values = tf.cast(x, _wide(x))
    return _finish(x, code, _normalize(values, [code.index("H"), code.index("W")], epsilon), affine)


@register_layer
def GroupNorm(
    x: tf.Tensor,
    groups: int = 32,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Normalises groups of channels of each example, after Wu and He (2018), arXiv:1803.08494.

    Mean and variance are computed over the neighbouring channels of a group, and over height and width. One
    group gives `LayerNorm`, one group per channel `InstanceNorm`.

    Variables, in the dtype of the input, or float32 for a half-precision input: `gamma` and `beta`.

    Args:
        x: float tensor, `[N, C]` or an image batch; the number of channels is static.
        groups: the number of groups; it must divide the number of channels.
        epsilon: added to the variance.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
        gamma_initializer: ones by default.
        data_format: `channels_last` or `channels_first`, for 4-D inputs.

    Returns:
        Tensor of the input's shape and dtype; `.variables` holds `gamma` and `beta`.

    Raises:
        TypeError: the input is no float tensor.
        ValueError: an argument is out of range, or the input has another rank or unknown channels.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import GroupNorm
        >>> with tf.Graph().as_default():
        ...     GroupNorm("gn", tf.ones([2, 8, 8, 6]), groups=2).shape
        TensorShape([2, 8, 8, 6])
    """
    call = layer_label("GroupNorm")
    check_rank(call, x, 2, 4)
    code, channels = _check(call, x, data_format)
    groups, epsilon = check_count(call, "groups", groups), check_epsilon(call, epsilon)
    if channels % groups:
        raise ValueError(f"{call}: groups must divide the number of channels, {channels}; received {groups}.")
    affine = make_scale_and_offset(
        call, channels, _wide(x), center=center, scale=scale, gamma_initializer=gamma_initializer
    )
    shape = tf.shape(x)
    if code == "NHWC":
        # The pixels of an image in one axis; an example of a 2-D input has one pixel.
        form, axes = [shape[0], tf.reduce_prod(shape[1:-1]), groups, channels // groups], [1, 3]
    else:
        form, axes = [shape[0], groups, channels // groups, shape[2] * shape[3]], [2, 3]
    normal = _normalize(tf.reshape(tf.cast(x, _wide(x)), form), axes, epsilon)
    return _finish(x, code, tf.reshape(normal, shape), affine)


def _check(call: str, x: tf.Tensor, data_format: str) -> tuple[str, int]:
    """Returns TensorFlow's name of the data format, and the number of channels."""
    if not x.dtype.is_floating:
        raise TypeError(f"{call}: the input must be a float tensor, received {x.dtype.name}. Use tf.cast.")
    return find_channels(call, x, None, data_format)


def _wide(x: tf.Tensor) -> tf.DType:
    """Returns the dtype of statistics and variables: sums in half precision lose too many digits."""
    return tf.float64 if x.dtype == tf.float64 else tf.float32


def _normalize(values: tf.Tensor, axes: Sequence[int], epsilon: float) -> tf.Tensor:
    mean, variance = tf.nn.moments(values, list(axes), keepdims=True)
    return (values - mean) * tf.rsqrt(variance + epsilon)


def _finish(x: tf.Tensor, code: str, normal: tf.Tensor, affine: dict[str, Any]) -> tf.Tensor:
    """Returns the layer's output, given the normalised input."""
    form = [-1 if letter == "C" else 1 for letter in code] if x.shape.rank == 4 else [1, -1]
    if affine["gamma"] is not None:
        normal *= tf.reshape(affine["gamma"], form)
    if affine["beta"] is not None:
        # TensorFlow 2.21 replaces a sum over a matrix by its kernel _MklLayerNorm, which fails on some inputs
        # and gives wrong numbers for others.
        normal = tf.nn.bias_add(normal, affine["beta"], data_format=code)
    return name_result(x, tf.cast(normal, x.dtype), **affine)
