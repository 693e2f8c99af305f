"""Adam for very large batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_number, matcher
from ._gradient_values import variable_name
from ._whole_tensor_updates import WholeTensorUpdates, trust_ratio

__all__ = ["LAMB"]


@final
class LAMB(WholeTensorUpdates, tf.train.AdamOptimizer):
    """Adam with a step for each variable that is scaled to the norm of the variable.

    After You et al., "Large Batch Optimization for Deep Learning" (2020), arXiv:1904.00962, algorithm 2, with
    the identity as its function phi::

        m = beta1 m + (1 - beta1) g            m' = m / (1 - beta1^t)
        v = beta2 v + (1 - beta2) g^2          v' = v / (1 - beta2^t)
        u = m' / (sqrt(v') + epsilon) + weight_decay w
        w = w - learning_rate |w| / |u| u

    The ratio of norms is 1 if either norm is 0. Sparse gradients are converted to dense ones.

    Args:
        learning_rate: a number, a tensor or variable, or a function that makes one.
        weight_decay: weight of the variable itself in its step.
        beta1: decay of the moving average of gradients.
        beta2: decay of the moving average of their squares.
        epsilon: keeps the denominator above 0.
        exclude: regular expressions; variables with matching names have neither decay nor ratio, so their
            step is Adam's. Usually biases and normalisation: `["/b$", "/gamma$", "/beta$"]`.

    Raises:
        TypeError, ValueError: an argument has another type, or is out of range.
    """

    def __init__(
        self,
        learning_rate: float | tf.Tensor | Callable[[], Any] = 1e-3,
        weight_decay: float = 1e-2,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        exclude: Sequence[str] = (),
    ) -> None:
        check_number("LAMB", "learning_rate", learning_rate)
        check_number("LAMB", "epsilon", epsilon)
        super().__init__(learning_rate, beta1, beta2, epsilon, name="LAMB")
        self._weight_decay = check_number("LAMB", "weight_decay", weight_decay)
        self._is_excluded = matcher("LAMB", exclude)

    def _update(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        dtype = var.dtype.base_dtype
        rate, beta1, beta2, epsilon, beta1_power, beta2_power = (
            tf.cast(number, dtype)
            for number in (
                self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t, *self._get_beta_accumulators()
            )
        )  # fmt: skip
        slot_m, slot_v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * slot_m + (1 - beta1) * grad
        v = beta2 * slot_v + (1 - beta2) * tf.square(grad)
        step = m / (1 - beta1_power) / (tf.sqrt(v / (1 - beta2_power)) + epsilon)
        if not self._is_excluded(variable_name(var)):
            step += tf.cast(self._weight_decay, dtype) * var
            step *= trust_ratio(tf.norm(var), tf.norm(step))
        return tf.group(tf.assign(slot_m, m), tf.assign(slot_v, v), tf.assign_sub(var, rate * step))
