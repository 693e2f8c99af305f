"""An optimizer that accumulates gradients over several steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import at_least
from ._conditional_updates import given_pairs, require_resource_variables, run_if, state_variable
from ._gradient_values import Pairs
from ._proxy_optimizer import ProxyOptimizer

__all__ = ["AccumGradOptimizer"]

_SLOT = "accumulated"


@final
class AccumGradOptimizer(ProxyOptimizer):
    """Accumulates the gradients of n steps, and applies them in every n-th step.

    With averaging, n steps are exactly one step with the n batches combined, if the cost is a mean over
    examples and does not depend on the batch otherwise (batch normalisation does). A trainer's steps remain
    the small ones: `global_step`, callbacks and schedules count them.

    The accumulated gradients are variables, so checkpoints include them: a run may stop between two updates.
    Sparse gradients are accumulated and applied as dense ones. With several synchronous towers, their average
    is accumulated.

    Args:
        optimizer: applies the accumulated gradients.
        steps: the number of steps in one update.
        reduction: "mean" averages the gradients of the steps, "sum" adds them.

    Raises:
        TypeError: `optimizer` is not a `tf.train.Optimizer`.
        ValueError: `steps` is not a whole number above 0, or `reduction` is unknown; or (in
            `apply_gradients`) there is no gradient, a variable is not a resource variable, or another tower
            already accumulates its gradient.

    Example:
        ```python
        AccumGradOptimizer(tf.train.AdamOptimizer(1e-3), steps=4)
        ```
    """

    def __init__(self, optimizer: tf.train.Optimizer, steps: int, reduction: str = "mean") -> None:
        super().__init__(optimizer)
        self._steps = at_least("AccumGradOptimizer", "steps", steps)
        if reduction not in {"mean", "sum"}:
            raise ValueError(f'AccumGradOptimizer(reduction={reduction!r}): expected "mean" or "sum".')
        self._divisor = steps if reduction == "mean" else 1

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns the op that accumulates gradients; every n-th run also updates and counts `global_step`."""
        pairs = given_pairs("AccumGradOptimizer", grads_and_vars)
        require_resource_variables("AccumGradOptimizer", pairs)
        slots, count = self._make_state(pairs)
        with tf.name_scope(self.get_name()), tf.control_dependencies(_add(slots, pairs)):
            # Read after the increment, and therefore after all gradients are added.
            counted = count.assign_add(1, read_value=True)
        variables = [variable for _, variable in pairs]

        def update() -> tf.Operation:
            totals = [slot.read_value() / self._divisor for slot in slots]
            applied = super(AccumGradOptimizer, self).apply_gradients(
                list(zip(totals, variables)), global_step
            )
            with tf.control_dependencies([applied]):
                cleared = [slot.assign(tf.zeros_like(slot), read_value=False) for slot in slots]
                return tf.group(*cleared, count.assign(0, read_value=False))

        return tf.group(run_if(tf.equal(counted, self._steps), update), name=name)

    def _make_state(self, pairs: Pairs) -> tuple[list[tf.Variable], tf.Variable]:
        for _, variable in pairs:
            if tf.train.Optimizer.get_slot(self, variable, _SLOT) is not None:
                raise ValueError(
                    f"AccumGradOptimizer.apply_gradients was called twice for {variable.op.name!r}: towers "
                    "with separate updates of shared variables cannot accumulate. Use a synchronous trainer."
                )
        with tf.init_scope(), tf.control_dependencies(None):
            slots = [self._zeros_slot(variable, _SLOT, "AccumGrad") for _, variable in pairs]
            with tf.variable_scope(None, default_name=self.get_name()):
                return slots, state_variable("count", 0, tf.int64)


def _add(slots: Sequence[tf.Variable], pairs: Pairs) -> list[tf.Operation]:
    ops = []
    for slot, (gradient, _) in zip(slots, pairs):
        if isinstance(gradient, tf.IndexedSlices):
            ops.append(tf.scatter_add(slot, gradient.indices, gradient.values))
        else:
            ops.append(slot.assign_add(gradient, read_value=False))
    return ops
