"""Optimizers: Adam with decoupled weight decay, and optimizers for very large batches."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_number, matcher

__all__ = [
    "LAMB",
    "LARS",
    "AdamW",
    "Pairs",
    "WholeTensorUpdates",
    "check_pairs",
    "describe_rows",
    "learning_rate_tensor",
    "map_values",
    "sum_rows",
    "trust_ratio",
    "values_of",
    "variable_name",
]

Pairs = list[tuple[Any, tf.Variable]]
"""Gradients (tensors, `tf.IndexedSlices`, or None without a gradient) with their variables."""


def variable_name(variable: tf.Variable) -> str:
    """Returns the variable's name in the model, without the scope of a tower's own copy."""
    return re.sub(r"^tower\d+/", "", str(variable.op.name))


def map_values(gradient: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a function to the values of a gradient, dense or `tf.IndexedSlices`."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def values_of(gradient: Any) -> tf.Tensor:
    """Returns the values of a gradient; for `tf.IndexedSlices`, those of the touched rows."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def sum_rows(gradient: Any) -> Any:
    """Makes the rows of `tf.IndexedSlices` unique; returns a dense gradient unchanged.

    A row that was looked up twice occurs twice, and its gradient is the sum. Nonlinear operations (a norm, a
    clipping) would be wrong on the separate parts.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    values.set_shape(tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def describe_rows(gradient: Any) -> list[Any]:
    """Returns the arguments for printing a gradient with `tf.print`."""
    if isinstance(gradient, tf.IndexedSlices):
        return ["rows", gradient.indices, gradient.values]
    return [gradient]


def check_pairs(owner: str, grads: Sequence[tuple[Any, tf.Variable]]) -> Pairs:
    """Returns `grads` as a list.

    Raises:
        TypeError: `grads` is not a list of pairs of gradient and variable.
    """
    pairs = list(grads) if isinstance(grads, (list, tuple)) or hasattr(grads, "__next__") else None
    if pairs is None or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError(
            f"{owner}: expected a list of (gradient, variable) pairs, as compute_gradients returns it; "
            f"received {grads!r}."
        )
    return pairs


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

    Example:
        >>> with tf.Graph().as_default():
        ...     weight = tf.get_variable("weight", [3])
        ...     cost = tf.reduce_sum(tf.square(weight))
        ...     train_op = AdamW(1e-3, weight_decay=0.05, exclude=["/b$"]).minimize(cost)
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

    Example:
        >>> with tf.Graph().as_default():
        ...     weight = tf.get_variable("weight", [3])
        ...     cost = tf.reduce_sum(tf.square(weight))
        ...     train_op = LAMB(1e-3, exclude=["/b$", "/gamma$", "/beta$"]).minimize(cost)
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

    Example:
        >>> with tf.Graph().as_default():
        ...     weight = tf.get_variable("weight", [3])
        ...     cost = tf.reduce_sum(tf.square(weight))
        ...     train_op = LARS(1.0, momentum=0.9, exclude=["/b$", "/gamma$", "/beta$"]).minimize(cost)
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
