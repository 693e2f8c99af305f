"""`tensorpack.compat`: the version of TensorFlow and its interface of version 1."""

from __future__ import annotations

from typing import Any

__all__ = ["backport_tensor_spec", "is_tfv2"]


def is_tfv2() -> bool:
    """Returns whether programs use TensorFlow 2's interface: False, since they use TensorFlow 1's."""
    return False


def backport_tensor_spec() -> Any:
    """Returns `tf.TensorSpec`."""
    import tensorflow

    return tensorflow.TensorSpec
