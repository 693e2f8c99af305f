"""Enlarges images by a fixed pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import axis_sizes, check_data_format, check_pair, check_rank, layer_label, static_sizes
from ...registry import register_layer

__all__ = ["FixedUnPooling"]


@register_layer(log_shape=True)
def FixedUnPooling(
    x: tf.Tensor, shape: int | Sequence[int], unpool_mat: Any = None, data_format: str = "channels_last"
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
