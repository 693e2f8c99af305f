"""Momentum for very large batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_number, matcher
from ._gradient_values import variable_name
from ._whole_tensor_updates import WholeTensorUpdates, learning_rate_tensor, trust_ratio

__all__ = ["LARS"]


@final
class LARS(WholeTensorUpdates, tf.train.Optimizer):
    """Momentum with a separate learning rate for each variable, from the norms of weight and gradient.

    After You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks" (2017), arXiv:1708.03888,
    algorithm 1::

        local = trust |w| / (|g| + weight_decay |w|)
        p = momentum p + learning_rate local (g + weight_decay w)
        w = w - p

    `local` is 1 if a norm is 0. The learning rate is part of the momentum `p`, as in the paper; in
    `tf.train.MomentumOptimizer` it is not, which differs when the rate changes. Sparse gradients are
    converted to dense ones.

    Args:
        learning_rate: a number, a tensor or variable, or a function that makes one; of order 1 to 10.
        momentum: the fraction of the last step in the next one.
        weight_decay: weight of the variable itself in its gradient.
        trust: the paper's trust coefficient (eta).
        exclude: regular expressions; variables with matching names have neither decay nor local rate, so
            their step is plain momentum. Usually biases and normalisation: `["/b$", "/gamma$", "/beta$"]`.

    Raises:
        TypeError, ValueError: an argument has another type, or is out of range.
    """

    def __init__(
        self,
        learning_rate: float | tf.Tensor | Callable[[], Any],
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        exclude: Sequence[str] = (),
    ) -> None:
        super().__init__(use_locking=False, name="LARS")
        self._learning_rate = check_number("LARS", "learning_rate", learning_rate)
        self._momentum = check_number("LARS", "momentum", momentum)
        self._weight_decay = check_number("LARS", "weight_decay", weight_decay)
        self._trust = check_number("LARS", "trust", trust, above=True)
        self._is_excluded = matcher("LARS", exclude)

    def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self.get_name())

    def _prepare(self) -> None:
        self._rate = learning_rate_tensor(self._learning_rate)

    def _update(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        dtype = var.dtype.base_dtype
        rate, momentum, decay, trust = (
            tf.cast(number, dtype) for number in (self._rate, self._momentum, self._weight_decay, self._trust)
        )
        if not self._is_excluded(variable_name(var)):
            weight_norm, gradient_norm = tf.norm(var), tf.norm(grad)
            local = tf.where(
                gradient_norm > 0,
                trust_ratio(trust * weight_norm, gradient_norm + decay * weight_norm),
                tf.ones_like(gradient_norm),
            )
            grad = local * (grad + decay * var)
        slot = self.get_slot(var, "momentum")
        step = momentum * slot + rate * grad
        return tf.group(tf.assign(slot, step), tf.assign_sub(var, step))
