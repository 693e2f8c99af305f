"""Pooling over images, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import (
    DataFormat,
    axis_sizes,
    check_data_format,
    check_padding,
    check_pair,
    check_rank,
    compute_examples,
    compute_images,
    layer_label,
    static_sizes,
)
from ..registry._layer_info import REQUIRED
from ..registry._register_layer import register_layer

__all__ = ["AvgPooling", "FixedUnPooling", "GlobalAvgPooling", "MaxPooling"]


@register_layer(log_shape=True)
def MaxPooling(
    x: tf.Tensor,
    pool_size: int | Sequence[int] = REQUIRED,
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Takes the largest value of each window.

    Args:
        x: tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`.
        pool_size: height and width of the window, one number for both or two.
        strides: steps of the window, likewise; `pool_size` by default.
        padding: `same` or `valid` (the default here, unlike `Conv2D`).
        data_format: `channels_last` or `channels_first`.

    Returns:
        Tensor of the input's dtype and format.

    Raises:
        ValueError: an argument is out of range, or the input is not 4-D.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import MaxPooling
        >>> with tf.Graph().as_default():
        ...     MaxPooling("pool0", tf.ones([2, 28, 28, 1]), 2).shape
        TensorShape([2, 14, 14, 1])
    """
    return _pool("MaxPooling", _max_pool, x, pool_size, strides, padding, data_format)


@register_layer(log_shape=True)
def AvgPooling(
    x: tf.Tensor,
    pool_size: int | Sequence[int] = REQUIRED,
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Takes the mean of each window; with `same` padding, of the window's part inside the image.

    Args:
        x: tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`.
        pool_size: height and width of the window, one number for both or two.
        strides: steps of the window, likewise; `pool_size` by default.
        padding: `same` or `valid` (the default here, unlike `Conv2D`).
        data_format: `channels_last` or `channels_first`.

    Returns:
        Tensor of the input's dtype and format.

    Raises:
        ValueError: an argument is out of range, or the input is not 4-D.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import AvgPooling
        >>> with tf.Graph().as_default():
        ...     AvgPooling("pool0", tf.ones([2, 5, 5, 1]), 3, strides=1).shape
        TensorShape([2, 3, 3, 1])
    """
    return _pool("AvgPooling", tf.nn.avg_pool2d, x, pool_size, strides, padding, data_format)


@register_layer(log_shape=True)
def GlobalAvgPooling(x: tf.Tensor, data_format: str = "channels_last") -> tf.Tensor:
    """Takes the mean of each channel over the image.

    Args:
        x: floating tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`.
        data_format: `channels_last` or `channels_first`.

    Returns:
        Tensor `[N, C]` of the input's dtype.

    Raises:
        ValueError: the `data_format` is unknown, or the input is not 4-D.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import GlobalAvgPooling
        >>> with tf.Graph().as_default():
        ...     GlobalAvgPooling("gap", tf.ones([2, 7, 7, 64])).shape
        TensorShape([2, 64])
    """
    call = layer_label("GlobalAvgPooling")
    check_rank(call, x, 4)
    return tf.reduce_mean(x, check_data_format(call, data_format).spatial, name="output")


def _max_pool(x: tf.Tensor, **options: Any) -> tf.Tensor:
    return compute_examples(lambda examples: tf.nn.max_pool2d(examples, **options), x)


def _pool(
    layer: str,
    function: Callable[..., Any],
    x: tf.Tensor,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: str,
    data_format: str,
) -> tf.Tensor:
    call = layer_label(layer)
    check_rank(call, x, 4)
    form = check_data_format(call, data_format)
    size = check_pair(call, "pool_size", pool_size)
    steps = size if strides is None else check_pair(call, "strides", strides)
    padding = check_padding(call, padding)

    def compute(images: tf.Tensor, form: DataFormat) -> tf.Tensor:
        window = {"ksize": form.window(size), "strides": form.window(steps), "padding": padding}
        return function(images, **window, data_format=form.code)

    return compute_images(compute, x, form)


@register_layer(log_shape=True)
def FixedUnPooling(
    x: tf.Tensor,
    shape: int | Sequence[int] = REQUIRED,
    unpool_mat: Any = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Replaces each pixel by its product with a matrix: the Kronecker product.

    Args:
        x: tensor of shape `[N, H, W, C]`, or `[N, C, H, W]` with `channels_first`.
        shape: factors of height and width, one number for both or two.
        unpool_mat: matrix of this shape, a tensor or an array. By default it has 1 at the top left and 0
            elsewhere: each pixel is at the top left of its block, surrounded by zeros.
        data_format: `channels_last` or `channels_first`.

    Returns:
        Tensor of the input's dtype and format, `shape` times as high and wide.

    Raises:
        ValueError: an argument is out of range, the input is not 4-D, or the matrix has another shape.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FixedUnPooling
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     image = tf.reshape(tf.constant([1.0, 2.0]), [1, 1, 2, 1])
        ...     print(session.run(FixedUnPooling("unpool", image, 2))[0, :, :, 0])
        [[1. 0. 2. 0.]
         [0. 0. 0. 0.]]
    """
    call = layer_label("FixedUnPooling")
    check_rank(call, x, 4)
    form, factors = check_data_format(call, data_format), check_pair(call, "shape", shape)
    matrix = None if unpool_mat is None else _check_matrix(call, unpool_mat, factors, x.dtype)
    sizes = axis_sizes(x)
    height, width = form.spatial
    # Merge the axes before the height and after the width, so that no op has more than five axes.
    pixels = tf.reshape(
        x, [math.prod(sizes[: height + 1]), 1, sizes[width], 1, math.prod(sizes[width + 1 :])]
    )
    if matrix is None:
        out = tf.pad(pixels, [[0, 0], [0, factors[0] - 1], [0, 0], [0, factors[1] - 1], [0, 0]])
    else:
        out = pixels * tf.reshape(matrix, [1, factors[0], 1, factors[1], 1])
    for axis, factor in zip(form.spatial, factors, strict=True):
        sizes[axis] = sizes[axis] * factor
    out = tf.reshape(out, sizes)
    out.set_shape(static_sizes(sizes))
    return out


def _check_matrix(call: str, matrix: Any, factors: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    matrix = matrix if tf.is_tensor(matrix) else tf.constant(matrix, dtype)
    if not matrix.shape.is_compatible_with(factors):
        raise ValueError(
            f"{call}: unpool_mat must have the shape {list(factors)}, received one of shape {matrix.shape}."
        )
    return tf.cast(matrix, dtype)
