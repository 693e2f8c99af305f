"""Computation in 16 bits with float32 variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from ..registry import compute_dtype as computing_in

__all__ = ["mixed_precision"]


@contextlib.contextmanager
def mixed_precision(compute_dtype: tf.DType = tf.bfloat16) -> Iterator[None]:
    """Makes the layers of a block compute in 16 bits, with float32 variables.

    Layers cast their float32 input tensors. Variables requested in 16 bits, as layers do for the dtype of
    their input, are stored as float32 and cast when read. Variables requested as float32 are not cast, nor
    are the statistics, the scale and the offset of `BatchNorm`. Names and checkpoints equal those of a
    float32 model, gradients are float32, and weight decay acts on the float32 values. Outputs have 16 bits:
    cast the last one to float32 for the loss.

    bfloat16 has the range of float32 and needs nothing else; float16 needs a loss scale, such as
    `towerpack_trainers.DynamicLossScaleOptimizer`. A layer's `.variables` holds the tensors used in its
    computation, here the values in 16 bits.

    After Micikevicius et al., "Mixed Precision Training" (2018), arXiv:1710.03740, and Kalamkar et al., "A
    Study of BFLOAT16 for Deep Learning Training" (2019), arXiv:1905.12322.

    Args:
        compute_dtype: `tf.bfloat16` or `tf.float16`.

    Raises:
        TypeError: `compute_dtype` is another type.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, mixed_precision
        >>> with tf.Graph().as_default():
        ...     with mixed_precision(tf.bfloat16):
        ...         logits = FullyConnected("fc", tf.ones([2, 3]), 4)
        ...     logits.dtype.name, tf.trainable_variables()[0].dtype.base_dtype.name
        ('bfloat16', 'float32')
    """
    try:
        dtype = tf.as_dtype(compute_dtype)
    except TypeError:
        dtype = None
    if dtype not in (tf.bfloat16, tf.float16):
        raise TypeError(f"mixed_precision({compute_dtype!r}): expected tf.bfloat16 or tf.float16.")
    scope, getter = tf.get_variable_scope(), _float32_masters(dtype)
    with computing_in(dtype), tf.variable_scope(scope, custom_getter=getter, auxiliary_name_scope=False):
        yield


def _float32_masters(dtype: tf.DType) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("dtype")
        if wanted is None or tf.as_dtype(wanted) != dtype:
            return getter(name, *args, **kwargs)
        if tf.is_tensor(kwargs.get("initializer")):
            kwargs["initializer"] = tf.cast(kwargs["initializer"], tf.float32)
        master = getter(name, *args, **{**kwargs, "dtype": tf.float32})
        return tf.cast(master, dtype)

    return get
