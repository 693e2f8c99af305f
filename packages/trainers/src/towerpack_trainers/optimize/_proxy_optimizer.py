"""The base class of optimizers that wrap another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._argument_checks import check_optimizer

__all__ = ["ProxyOptimizer"]


class ProxyOptimizer(tf.train.Optimizer):
    """Forwards all calls to another optimizer; a subclass adds work before or after them.

    Proxies can be nested. `compute_gradients` always returns the true gradients of the cost, so they may be
    averaged or processed further.

    Args:
        optimizer: a `tf.train.Optimizer`.

    Raises:
        TypeError: `optimizer` is another object; for a Keras optimizer, the message names its replacement.
    """

    def __init__(self, optimizer: tf.train.Optimizer) -> None:
        super().__init__(use_locking=False, name=type(self).__name__)
        self._inner = check_optimizer(type(self).__name__, optimizer)

    def compute_gradients(self, loss: tf.Tensor, *args: Any, **kwargs: Any) -> list[tuple[Any, tf.Variable]]:
        """Returns gradients of `loss`; arguments are those of `tf.train.Optimizer.compute_gradients`."""
        return list(self._inner.compute_gradients(loss, *args, **kwargs))

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns the op that updates variables; arguments are those of `tf.train.Optimizer`'s method."""
        return self._inner.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """Returns a slot variable of `var` from this optimizer or the inner one; None without such a slot."""
        own = super().get_slot(var, name)
        return self._inner.get_slot(var, name) if own is None else own

    def get_slot_names(self) -> list[str]:
        """Returns the slot names of this optimizer and of the inner one."""
        return sorted({*super().get_slot_names(), *self._inner.get_slot_names()})

    def variables(self) -> list[tf.Variable]:
        """Returns the variables of this optimizer and of the inner one, in the current graph."""
        return [*super().variables(), *self._inner.variables()]
