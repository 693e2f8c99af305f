"""Functions of tensors without variables: statistics, printing and flattening."""

from __future__ import annotations

import math
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_rank, is_number
from ..registry import check_graph_mode

__all__ = ["batch_flatten", "print_stat", "psnr", "rms"]


def rms(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns the root of the mean of the squares of all elements.

    Args:
        x: floating tensor; squares of 16-bit numbers are added in float32.
        name: name of the result; by default `<name of x>/rms`, independent of the current name scope.

    Returns:
        Scalar tensor of the input's dtype.

    Raises:
        TypeError: the input is not a floating tensor.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rms
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = tf.constant([3.0, -4.0], name="x")
        ...     print(rms(x).name, round(float(session.run(rms(x))), 3))
        x/rms:0 3.536
    """
    check_graph_mode("rms")
    _check_floating("rms", "x", x)
    if name is not None:
        return _rms(x, name)
    with tf.name_scope(None):  # the name of x is absolute
        return _rms(x, f"{x.op.name}/rms")


def psnr(
    prediction: tf.Tensor, ground_truth: tf.Tensor, maxp: float | None = None, name: str = "psnr"
) -> tf.Tensor:
    """Returns the peak signal-to-noise ratio in dB, `20 log10(maxp) - 10 log10(mean squared error)`.

    Args:
        prediction: floating tensor.
        ground_truth: floating tensor of the same shape and dtype.
        maxp: the largest value that a pixel can have, such as 255; 1 by default.
        name: name of the result.

    Returns:
        Scalar tensor of the input's dtype; infinite if the two are equal.

    Raises:
        TypeError: an input is not a floating tensor.
        ValueError: `maxp` is not positive.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import psnr
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     print(session.run(psnr(tf.zeros([2, 8, 8, 3]), tf.fill([2, 8, 8, 3], 25.5), maxp=255)))
        20.0
    """
    check_graph_mode("psnr")
    _check_floating("psnr", "prediction", prediction)
    _check_floating("psnr", "ground_truth", ground_truth)
    if maxp is not None and (not is_number(maxp) or not maxp > 0):
        raise ValueError(f"psnr: maxp must be a positive number, received {maxp!r}.")
    with tf.name_scope(f"{name}_terms"):
        error = tf.reduce_mean(tf.square(_wide(prediction) - _wide(ground_truth)))
        peak = 20 * math.log10(1 if maxp is None else maxp)
        ratio = peak - 10 / math.log(10) * tf.log(error)
    return (
        tf.cast(ratio, prediction.dtype, name=name)
        if ratio.dtype != prediction.dtype
        else tf.identity(ratio, name)
    )


def print_stat(x: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """Returns the input, and prints its shape, mean and root mean square at each computation.

    The line goes to the standard error of the process. Use the returned tensor instead of the input:
    `x = print_stat(x)`.

    Args:
        x: tensor of numbers or bools.
        message: the beginning of the line; by default the tensor's name.

    Returns:
        Tensor equal to the input.

    Raises:
        TypeError: the input is not a tensor of real numbers or bools.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import print_stat
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     x = print_stat(tf.constant([3.0, -4.0], name="x"))
        ...     print(session.run(x))  # and "x: shape [2] mean -0.5 rms 3.53553391" to standard error
        [ 3. -4.]
    """
    check_graph_mode("print_stat")
    if not tf.is_tensor(x) or not (x.dtype.is_floating or x.dtype.is_integer or x.dtype.is_bool):
        raise TypeError(f"print_stat: x must be a tensor of real numbers or bools, received {x!r}.")
    label = x.op.name if message is None else message
    with tf.name_scope("print_stat"):
        values = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
        mean, root = tf.reduce_mean(values), _rms(values, "rms")
        printed = tf.print(f"{label}: shape", tf.shape(x), "mean", mean, "rms", root)
        with tf.control_dependencies([printed]):
            return tf.identity(x, "output")


def batch_flatten(x: tf.Tensor) -> tf.Tensor:
    """Flattens the input to a matrix with one row per example.

    Args:
        x: tensor of shape `[N, ...]`; sizes may be unknown.

    Returns:
        Tensor `[N, features]` of the input's dtype; the number of features is static if all sizes are.

    Raises:
        TypeError: the input is not a tensor.
        ValueError: the input is a scalar, or its rank is unknown.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import batch_flatten
        >>> with tf.Graph().as_default():
        ...     batch_flatten(tf.placeholder(tf.float32, [None, 4, 4, 3])).shape
        TensorShape([None, 48])
    """
    check_graph_mode("batch_flatten")
    if check_rank("batch_flatten", x) == 0:
        raise ValueError("batch_flatten: the input needs a batch axis, received a scalar.")
    batch, *sizes = x.shape.as_list()
    # A size of -1 cannot be inferred for an empty batch.
    rows = tf.shape(x)[0] if batch is None else batch
    columns = tf.reduce_prod(tf.shape(x)[1:]) if None in sizes else math.prod(sizes)
    flat = tf.reshape(x, [rows, columns])
    flat.set_shape([batch, None if None in sizes else math.prod(sizes)])
    return flat


def _rms(x: tf.Tensor, name: str) -> tf.Tensor:
    root = tf.sqrt(tf.reduce_mean(tf.square(_wide(x))))
    return tf.identity(root, name) if root.dtype == x.dtype else tf.cast(root, x.dtype, name)


def _wide(x: tf.Tensor) -> tf.Tensor:
    """Casts numbers to at least 32 bits, so that their squares can be added without an overflow."""
    return tf.cast(x, tf.float32) if x.dtype.size < 4 else x


def _check_floating(call: str, argument: str, x: Any) -> None:
    if not tf.is_tensor(x) or not x.dtype.is_floating:
        raise TypeError(f"{call}: {argument} must be a floating tensor, received {x!r}.")
