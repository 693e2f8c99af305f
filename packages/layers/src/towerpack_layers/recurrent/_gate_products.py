"""Products of inputs and kernels, computed for all time steps at once."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["split_kernel", "times_matrix"]


def split_kernel(kernel: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits a kernel for `[x, h]` into the parts for the input and for the last output.

    Args:
        kernel: tensor `[input_size + units, size]`.
        x: inputs `[..., input_size]`.

    Returns:
        Tensors `[input_size, size]` and `[units, size]`.
    """
    input_size = x.shape[-1]
    of_input, of_output = tf.split(kernel, [input_size, kernel.shape[0] - input_size])
    return of_input, of_output


def times_matrix(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Multiplies the last axis of a tensor by a matrix, all other axes in one product.

    Args:
        x: tensor `[..., a]`.
        matrix: tensor `[a, b]`.

    Returns:
        Tensor `[..., b]`.
    """
    if x.shape.rank == 2:
        return tf.matmul(x, matrix)
    product = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix)
    sizes = tf.concat([tf.shape(x)[:-1], [matrix.shape[1]]], 0)
    product = tf.reshape(product, sizes)
    product.set_shape([*x.shape[:-1], matrix.shape[1]])
    return product
