"""Computation in 16 bits on variables of 32."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["mixed_precision"]


@contextlib.contextmanager
def mixed_precision(compute_dtype: tf.DType = tf.bfloat16) -> Iterator[None]:
    """Makes variables float32 that are created in 16 bits in a block, and reads them in 16 bits.

    Layers create variables in the dtype of their input, so the input decides: cast it, and cast the result
    back before the cost. Variables that are created as float32 stay so, as do the statistics and the scale
    of `BatchNorm`. Names and checkpoints are those of a float32 model, gradients are float32, and weight
    decay acts on the float32 values.

    bfloat16 has the range of float32 and needs no more than this; float16 needs a
    `DynamicLossScaleOptimizer`. A layer's `.variables` holds the tensors that the layer
    computes with, here the values in 16 bits.

    After Micikevicius et al., "Mixed Precision Training" (2018), arXiv:1710.03740, and Kalamkar et al., "A
    Study of BFLOAT16 for Deep Learning Training" (2019), arXiv:1905.12322.

    Args:
        compute_dtype: `tf.bfloat16` or `tf.float16`.

    Raises:
        TypeError: `compute_dtype` is another type.

    Example:
        ```python
        def build_graph(self, image, label):
            with mixed_precision(tf.bfloat16):
                logits = network(tf.cast(image, tf.bfloat16))
            logits = tf.cast(logits, tf.float32)
        ```
    """
    try:
        dtype = tf.as_dtype(compute_dtype)
    except TypeError:
        dtype = None
    if dtype not in (tf.bfloat16, tf.float16):
        raise TypeError(f"mixed_precision({compute_dtype!r}): expected tf.bfloat16 or tf.float16.")
    scope = tf.get_variable_scope()
    with tf.variable_scope(scope, custom_getter=_float32_masters(dtype), auxiliary_name_scope=False):
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
