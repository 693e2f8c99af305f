"""Learnt vectors for the words of a vocabulary."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import (
    TensorFunction,
    check_count,
    check_function,
    check_rank,
    layer_label,
    resolve_initializer,
)
from ..registry._layer_info import REQUIRED
from ..registry._layer_scope import attach_variables
from ..registry._register_layer import register_layer

__all__ = ["Embedding"]

_INDICES = (tf.int32, tf.int64)


@register_layer(log_shape=True)
def Embedding(
    x: tf.Tensor,
    vocabulary_size: int = REQUIRED,
    units: int = REQUIRED,
    kernel_initializer: Any = None,
    kernel_regularizer: TensorFunction | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Looks up a learnt vector for each id.

    The variable is `W`, of shape `[vocabulary_size, units]`. Its gradient is sparse (`tf.IndexedSlices`):
    with an optimizer that has a sparse update, the cost of a step depends on the number of ids in its batch.

    On a CPU, an id outside of the vocabulary raises an `InvalidArgumentError` at run time. On a GPU,
    TensorFlow does not check ids: the vector is then zero. For untrusted ids, check them first with
    `tf.debugging.assert_less`, or place the layer on the CPU.

    Args:
        x: integer tensor of any shape: ids, from 0 to `vocabulary_size - 1`.
        vocabulary_size: number of ids.
        units: size of a vector.
        kernel_initializer: for `W`; by default uniform from -0.05 to 0.05.
        kernel_regularizer: function of `W` that returns a scalar cost.
        dtype: the dtype of `W` and of the result.

    Returns:
        Tensor of the input's shape and one more axis, of size `units`; `.variables` holds `W`.

    Raises:
        TypeError: the input does not consist of integers, or `dtype` is not floating.
        ValueError: a size is not a positive int.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Embedding
        >>> with tf.Graph().as_default():
        ...     Embedding("embed", tf.constant([[3, 1, 4], [1, 5, 9]]), 10, 16).shape
        TensorShape([2, 3, 16])
    """
    call = layer_label("Embedding")
    check_rank(call, x)
    if not x.dtype.is_integer:
        raise TypeError(
            f"{call}: the input must have an integer dtype, received {x.dtype.name}. Use tf.cast."
        )
    dtype = tf.as_dtype(dtype)
    if not dtype.is_floating:
        raise TypeError(f"{call}: dtype must be floating, received {dtype.name}.")
    shape = [check_count(call, "vocabulary_size", vocabulary_size), check_count(call, "units", units)]
    check_function(call, "kernel_regularizer", kernel_regularizer)
    uniform = tf.random_uniform_initializer(-0.05, 0.05)
    initializer = resolve_initializer(call, "kernel_initializer", kernel_initializer, uniform, shape)
    table = tf.get_variable("W", shape, dtype, initializer, kernel_regularizer)
    ids = x if x.dtype in _INDICES else tf.cast(x, tf.int64)
    # The strategy that matches the parts made by a partitioner of the variable scope.
    out = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
    return attach_variables(out, W=table)
