"""Spectral normalisation: weights divided by their largest singular value."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from ..arguments import check_count
from ..tower import resolve_training, shared_by_towers

__all__ = ["spectral_norm_scope"]


@contextlib.contextmanager
def spectral_norm_scope(*, iterations: int = 1, training: bool | None = None) -> Iterator[None]:
    """Divides weights by their largest singular value, after Miyato et al. (2018), arXiv:1802.05957.

    For a trainable variable with at least two axes, `tf.get_variable` in the scope returns the weight divided
    by an estimate of this value, where the weight is reshaped to a matrix with the last axis as columns.
    Layers need no changes. The regularizers of a layer receive the variable itself.

    The estimate is computed by power iteration, which starts with the final vector of the previous step: the
    non-trainable variable `<weight>/u`, in `GLOBAL_VARIABLES` and `MODEL_VARIABLES`. All reads of one step,
    in all towers that share the variable, use the same estimate, and the vector is stored once per step.
    Gradients flow through the estimate, with its vectors as constants. In inference the estimate is the same,
    and the vector is not stored.

    Args:
        iterations: power iterations in each step.
        training: whether to store the vector; by default the `is_training` of the tower that requests a
            weight.

    Raises:
        TowerError: a weight is requested outside any tower, and `training` is not given.
        ValueError: `iterations` is not a positive int.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, TowerContext, spectral_norm_scope
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True), spectral_norm_scope():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)
        ...     [v.op.name for v in tf.global_variables()]
        ['fc/W', 'fc/W/u', 'fc/b']
    """
    iterations = check_count("spectral_norm_scope", "iterations", iterations)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        weight = getter(name, *args, **kwargs)
        rank = weight.get_shape().rank
        if kwargs.get("trainable") is False or rank is None or rank < 2:
            return weight
        stores = resolve_training(f"spectral_norm_scope of {name!r}", training)
        return _divide(weight, name, _make_vector(getter, weight, name, kwargs), iterations, stores)

    scope = tf.variable_scope(tf.get_variable_scope(), custom_getter=get, auxiliary_name_scope=False)
    with scope:
        yield


def _divide(weight: Any, name: str, vector: Any, iterations: int, stores: bool) -> tf.Tensor:
    """Returns a weight divided by its largest singular value."""
    value = tf.convert_to_tensor(weight)
    matrix = tf.cast(tf.reshape(value, [-1, value.shape[-1]]), vector.dtype.base_dtype)

    def estimate() -> list[tf.Tensor]:
        left, right = _iterate(tf.stop_gradient(matrix), vector.read_value(), iterations)
        stored = [vector.assign(right, read_value=False)] if stores else []
        with tf.control_dependencies(stored):
            return [tf.identity(left), tf.identity(right)]

    # In inference each tower computes its own estimate, since that of a training tower is also stored.
    left, right = shared_by_towers(f"singular vectors of {name}", estimate) if stores else estimate()
    largest = tf.tensordot(left, tf.linalg.matvec(matrix, right), 1)
    return tf.divide(value, tf.cast(largest, value.dtype), name="spectral_norm")


def _iterate(matrix: tf.Tensor, right: tf.Tensor, iterations: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Estimates the singular vectors of a matrix by power iteration, starting from the right one."""
    left = right
    for _ in range(iterations):
        left = tf.math.l2_normalize(tf.linalg.matvec(matrix, right))
        right = tf.math.l2_normalize(tf.linalg.matvec(matrix, left, transpose_a=True))
    return tf.stop_gradient(left), tf.stop_gradient(right)


def _make_vector(getter: Callable[..., Any], weight: Any, name: str, kwargs: dict[str, Any]) -> Any:
    """Returns the variable with the right singular vector of a weight."""
    options = {
        **kwargs,
        "shape": [weight.get_shape().as_list()[-1]],
        "dtype": tf.float64 if weight.dtype.base_dtype == tf.float64 else tf.float32,
        "initializer": tf.random_normal_initializer(),
        "regularizer": None,
        "constraint": None,
        "partitioner": None,
        "trainable": False,
        "collections": [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
    }
    made = getter(f"{name}/u", **options)
    if hasattr(made, "assign"):
        return made
    # An enclosing scope has replaced the variable by a tensor.
    known = [*tf.global_variables(), *tf.local_variables(), *tf.model_variables()]
    return next(variable for variable in known if variable.op.name == f"{name}/u")
