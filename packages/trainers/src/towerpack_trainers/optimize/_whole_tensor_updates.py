"""The base class of optimizers with steps that depend on the norm of a whole tensor."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["WholeTensorUpdates", "learning_rate_tensor", "trust_ratio"]


class WholeTensorUpdates(abc.ABC):
    """Reduces the several apply methods of `tf.train.Optimizer` to a single one.

    A sparse gradient is first converted to a dense one: norms are of whole tensors, and weight decay and
    momentum also change rows without a gradient.
    """

    @abc.abstractmethod
    def _update(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        """Returns the op that updates `var` by a dense gradient."""

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return self._update(grad, var)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return self._update(grad, var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        return self._update(tf.math.unsorted_segment_sum(grad, indices, tf.shape(var)[0]), var)


def learning_rate_tensor(learning_rate: Any) -> tf.Tensor:
    """Converts a learning rate, given as a number, a tensor, a variable or a function, to a tensor."""
    return tf.convert_to_tensor(learning_rate() if callable(learning_rate) else learning_rate)


def trust_ratio(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    """Returns the quotient of two norms; 1 if either is 0, for example for a new bias."""
    both = tf.logical_and(numerator > 0, denominator > 0)
    return tf.where(
        both, numerator / tf.where(both, denominator, tf.ones_like(denominator)), tf.ones_like(numerator)
    )
