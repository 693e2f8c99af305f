"""Optimizers that change or read variables after their update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_function
from ._conditional_updates import given_pairs
from ._proxy_optimizer import ProxyOptimizer

__all__ = ["PostProcessOptimizer", "VariableAssignmentOptimizer"]


@final
class PostProcessOptimizer(ProxyOptimizer):
    """Runs an op for each variable after its update, in the same step.

    All variables are updated before the first of these ops runs.

    Args:
        optimizer: updates the variables.
        func: takes an updated variable, and returns an op to run, or None. The op reads the new value of the
            variable. Its ops are placed on the variable's device.

    Raises:
        TypeError: `optimizer` is not a `tf.train.Optimizer`, `func` is not a function, or it returned no op.

    Example:
        ```python
        average = tf.train.ExponentialMovingAverage(0.999)
        PostProcessOptimizer(tf.train.AdamOptimizer(1e-3), lambda variable: average.apply([variable]))
        ```
    """

    def __init__(self, optimizer: tf.train.Optimizer, func: Callable[[tf.Variable], Any]) -> None:
        super().__init__(optimizer)
        self._func = check_function(type(self).__name__, func)

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns the op that updates the variables and then runs the ops of `func`."""
        pairs = given_pairs(type(self).__name__, grads_and_vars)
        updated = super().apply_gradients(pairs, global_step)
        with tf.name_scope(self.get_name()), tf.control_dependencies([updated]):
            ops = [op for _, variable in pairs for op in self._follow(variable)]
        return tf.group(updated, *ops, name=name)

    def _follow(self, variable: tf.Variable) -> list[tf.Operation]:
        with tf.device(variable.device):
            op = self._func(variable)
        if op is None:
            return []
        if not isinstance(op, tf.Operation) and not hasattr(op, "op"):
            raise TypeError(
                f"{type(self).__name__}: func returned {op!r} for {variable.op.name!r}; expected an op or "
                "None."
            )
        return [op if isinstance(op, tf.Operation) else op.op]


@final
class VariableAssignmentOptimizer(ProxyOptimizer):
    """Assigns new values to variables after their update, for example to clip or normalise weights.

    Args:
        optimizer: updates the variables.
        func: takes an updated variable, and returns its new value, or None to keep the current one.

    Raises:
        TypeError: `optimizer` is not a `tf.train.Optimizer`, or `func` is not a function.

    Example:
        ```python
        clip = lambda variable: tf.clip_by_value(variable, -0.01, 0.01)
        VariableAssignmentOptimizer(tf.train.RMSPropOptimizer(5e-5), clip)
        ```
    """

    def __init__(self, optimizer: tf.train.Optimizer, func: Callable[[tf.Variable], Any]) -> None:
        function = check_function("VariableAssignmentOptimizer", func)

        def assign(variable: tf.Variable) -> tf.Operation | None:
            value = function(variable)
            return None if value is None else tf.assign(variable, value).op

        super().__init__(PostProcessOptimizer(optimizer, assign))
