"""An optimizer that scales the cost, so that small gradients do not vanish in float16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._argument_checks import at_least, check_number
from ._conditional_updates import (
    given_pairs,
    outermost_graph,
    require_resource_variables,
    run_if,
    state_variable,
)
from ._gradient_values import Pairs, map_values, values_of
from ._proxy_optimizer import ProxyOptimizer

__all__ = ["DynamicLossScaleOptimizer"]

_LARGEST = 2.0**100  # well within float32, far above the needs of any cost


@final
@attrs.frozen(eq=False)
class _ScaleState:
    """The scale and the counters for one set of trained variables."""

    scale: tf.Variable
    good_steps: tf.Variable
    skipped_steps: tf.Variable


@final
class DynamicLossScaleOptimizer(ProxyOptimizer):
    """Computes gradients of a scaled cost, and skips the steps in which they overflow.

    After Micikevicius et al., "Mixed Precision Training" (2018), arXiv:1710.03740. The cost is multiplied
    before differentiation, and the gradients, float32 like the variables, are divided again, so
    `compute_gradients` returns the true gradients. If one is not finite at its application, nothing is
    updated (no variable, no slot) and the scale shrinks; after `growth_interval` good steps in a row it
    grows.

    Scale and counters are the variables `scale`, `good_steps` and `skipped_steps` under
    `DynamicLossScaleOptimizer/`; checkpoints include them. The trainer's `global_step` also counts skipped
    steps.

    Args:
        optimizer: applies the gradients.
        initial_scale: the initial factor.
        growth_interval: the number of good steps in a row before the scale grows.
        factor: multiplies the scale when it grows, and divides it when it shrinks; the scale is at least 1.

    Raises:
        TypeError: `optimizer` is not a `tf.train.Optimizer`, or a variable is not float32 (see
            `mixed_precision`).
        ValueError: a number is out of range; or (in `apply_gradients`) there is no gradient.

    Example:
        ```python
        DynamicLossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
        ```
    """

    def __init__(
        self,
        optimizer: tf.train.Optimizer,
        initial_scale: float = 2.0**15,
        growth_interval: int = 2000,
        factor: float = 2.0,
    ) -> None:
        super().__init__(optimizer)
        owner = type(self).__name__
        self._initial_scale = float(check_number(owner, "initial_scale", initial_scale, 1))
        self._growth_interval = at_least(owner, "growth_interval", growth_interval)
        self._factor = float(check_number(owner, "factor", factor, 1, above=True))
        self._states: dict[tuple[tf.Graph, str], _ScaleState] = {}

    def compute_gradients(
        self, loss: tf.Tensor, var_list: Sequence[tf.Variable] | None = None, *args: Any, **kwargs: Any
    ) -> Pairs:
        """Returns gradients of `loss`, computed from the scaled loss."""
        variables = tf.trainable_variables() if var_list is None else list(var_list)
        with tf.name_scope("loss_scale"):
            scale = self._state_for(variables).scale.read_value()
            scaled = tf.cast(loss, tf.float32) * scale
        pairs = super().compute_gradients(scaled, var_list, *args, **kwargs)
        with tf.name_scope("loss_scale"):
            return [(_divide(gradient, scale, variable), variable) for gradient, variable in pairs]

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns the op that updates variables and `global_step` if all gradients are finite."""
        pairs = given_pairs(type(self).__name__, grads_and_vars)
        require_resource_variables(type(self).__name__, pairs)
        state = self._state_for([variable for _, variable in pairs])
        with tf.name_scope(self.get_name()):
            finite = tf.reduce_all(
                [tf.reduce_all(tf.math.is_finite(values_of(gradient))) for gradient, _ in pairs]
            )
            adapted = self._adapt(state, finite)
        applied = run_if(
            finite, lambda: super(DynamicLossScaleOptimizer, self).apply_gradients(pairs, global_step)
        )
        return tf.group(applied, *adapted, name=name)

    def variables(self) -> list[tf.Variable]:
        """Returns the variables of this optimizer and of the inner one, in the current graph."""
        graph = outermost_graph()
        here = {id(state): state for (where, _), state in self._states.items() if where is graph}
        own = [variable for state in here.values() for variable in attrs.astuple(state, recurse=False)]
        return [*own, *super().variables()]

    def _state_for(self, variables: Sequence[tf.Variable]) -> _ScaleState:
        """Returns the state for these variables; each tower with its own variables has a separate one."""
        keys = [(variable.graph, variable.op.name) for variable in variables]
        state = next((self._states[key] for key in keys if key in self._states), None)
        if state is None:
            state = self._make_state()
        for key in keys:
            self._states.setdefault(key, state)
        return state

    def _make_state(self) -> _ScaleState:
        with tf.init_scope(), tf.variable_scope(None, default_name=self.get_name()):
            return _ScaleState(
                state_variable("scale", self._initial_scale, tf.float32),
                state_variable("good_steps", 0, tf.int64),
                state_variable("skipped_steps", 0, tf.int64),
            )

    def _adapt(self, state: _ScaleState, finite: tf.Tensor) -> list[tf.Operation]:
        # After `finite`, and therefore after all gradients of this step have read the scale.
        with tf.control_dependencies([finite]):
            scale, good = state.scale.read_value(), state.good_steps.read_value() + 1
            grows = good >= self._growth_interval
            grown = tf.where(grows, tf.minimum(scale * self._factor, _LARGEST), scale)
            shrunk = tf.maximum(scale / self._factor, 1.0)
            return [
                state.scale.assign(tf.where(finite, grown, shrunk), read_value=False),
                state.good_steps.assign(
                    tf.where(tf.logical_and(finite, ~grows), good, tf.zeros_like(good)), read_value=False
                ),
                state.skipped_steps.assign_add(tf.cast(~finite, tf.int64), read_value=False),
            ]


def _divide(gradient: Any, scale: tf.Tensor, variable: tf.Variable) -> Any:
    if variable.dtype.base_dtype not in (tf.float32, tf.float64):
        raise TypeError(
            f"DynamicLossScaleOptimizer: variable {variable.op.name!r} is {variable.dtype.base_dtype.name}; "
            "its unscaled gradients would still vanish. Make it float32: build the model in "
            "`with mixed_precision(tf.float16):`."
        )
    if gradient is None:
        return None
    return map_values(gradient, lambda values: values / tf.cast(scale, values.dtype))
