"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_number, matcher
from ._gradient_values import variable_name

__all__ = ["AdamW"]


@final
class AdamW(tf.train.AdamOptimizer):
    """Adam with weight decay that is separate from the gradient step.

    After Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), arXiv:1711.05101,
    algorithm 2::

        m = beta1 m + (1 - beta1) g            m' = m / (1 - beta1^t)
        v = beta2 v + (1 - beta2) g^2          v' = v / (1 - beta2^t)
        w = w - learning_rate (m' / (sqrt(v') + epsilon) + weight_decay w)

    The decay is multiplied by the learning rate, schedule included, as in PyTorch's and Keras's AdamW.
    `epsilon` has the position of the paper; `tf.train.AdamOptimizer` adds it to the uncorrected root instead.
    A sparse gradient updates and decays all rows.

    Args:
        learning_rate: a number, a tensor or variable, or a function that makes one.
        weight_decay: the fraction of a weight to subtract per step, before multiplication by the learning
            rate.
        beta1: decay of the moving average of gradients.
        beta2: decay of the moving average of their squares.
        epsilon: keeps the denominator above 0.
        exclude: regular expressions; variables with matching names do not decay. Usually biases and
            normalisation: `["/b$", "/gamma$", "/beta$"]`.

    Raises:
        TypeError, ValueError: an argument has another type, or is out of range.
    """

    _epsilon_t: tf.Tensor

    def __init__(
        self,
        learning_rate: float | tf.Tensor | Callable[[], Any] = 1e-3,
        weight_decay: float = 1e-2,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        exclude: Sequence[str] = (),
    ) -> None:
        check_number("AdamW", "learning_rate", learning_rate)
        check_number("AdamW", "epsilon", epsilon)
        super().__init__(learning_rate, beta1, beta2, epsilon, name="AdamW")
        self._weight_decay = check_number("AdamW", "weight_decay", weight_decay)
        self._is_excluded = matcher("AdamW", exclude)

    def _prepare(self) -> None:
        super()._prepare()
        # The kernel adds its epsilon to sqrt(v), which equals sqrt(v') times this root.
        _, beta2_power = self._get_beta_accumulators()
        self._epsilon_t = tf.cast(self._epsilon_t, tf.float32) * tf.sqrt(1.0 - beta2_power)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        with tf.control_dependencies(self._decay(grad, var)):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        with tf.control_dependencies(self._decay(grad, var)):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        with tf.control_dependencies(self._decay(grad.values, var)):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        with tf.control_dependencies(self._decay(grad, var)):
            return super()._resource_apply_sparse(grad, var, indices)

    def _decay(self, grad: tf.Tensor, var: tf.Variable) -> list[tf.Operation]:
        if self._is_excluded(variable_name(var)):
            return []
        # Not before the gradient, since its computation must read the old weight.
        with tf.control_dependencies([grad]):
            rate = tf.cast(self._lr_t, var.dtype.base_dtype) * tf.cast(
                self._weight_decay, var.dtype.base_dtype
            )
            return [tf.assign_sub(var, rate * var).op]
