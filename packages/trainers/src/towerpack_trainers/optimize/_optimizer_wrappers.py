"""Optimizers that wrap another one: they accumulate gradients, scale the cost, or follow an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._argument_checks import at_least, check_function, check_number, check_optimizer
from ._optimizers import Pairs, check_pairs, map_values, values_of

__all__ = [
    "AccumGradOptimizer",
    "DynamicLossScaleOptimizer",
    "PostProcessOptimizer",
    "ProxyOptimizer",
    "VariableAssignmentOptimizer",
    "given_pairs",
    "in_branch",
    "outermost_graph",
    "require_resource_variables",
    "run_if",
    "state_variable",
]


def given_pairs(owner: str, grads_and_vars: Sequence[tuple[Any, tf.Variable]]) -> Pairs:
    """Returns the pairs that have a gradient.

    Raises:
        TypeError: `grads_and_vars` is not a list of pairs.
        ValueError: no pair has a gradient.
    """
    pairs = check_pairs(f"{owner}.apply_gradients", grads_and_vars)
    given = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not given:
        raise ValueError(f"{owner}.apply_gradients received no gradient of any variable; nothing to train.")
    return given


def require_resource_variables(owner: str, pairs: Pairs) -> None:
    """Checks that variables support conditional updates.

    Raises:
        ValueError: a variable is a reference variable.
    """
    for _, variable in pairs:
        if not hasattr(variable, "handle"):
            raise ValueError(
                f"{owner} updates variables conditionally, which TensorFlow supports only for resource "
                f"variables; {variable.op.name!r} is not one. Do not pass use_resource=False, and do not "
                "call disable_resource_variables() or disable_v2_behavior()."
            )


def state_variable(name: str, value: float, dtype: tf.DType) -> tf.Variable:
    """Makes a scalar global variable, which checkpoints include, outside of any condition."""
    with tf.init_scope(), tf.control_dependencies(None):
        return tf.get_variable(
            name, [], dtype, tf.constant_initializer(value), trainable=False, use_resource=True
        )


def run_if(predicate: tf.Tensor, build: Callable[[], Any]) -> tf.Operation:
    """Returns an op that runs the op or tensor made by `build` if `predicate` is true."""

    def branch() -> tf.Tensor:
        with tf.control_dependencies([build()]):
            return tf.constant(True)

    done = tf.cond(predicate, branch, lambda: tf.constant(False))
    # Optimizers put their op here; this one belongs to the branch, and cannot be run from outside.
    updates = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    updates[:] = [op for op in updates if op.graph is done.graph]
    return done.op


def in_branch() -> bool:
    """Returns whether ops are currently added to a branch of a condition, or to a loop."""
    return tf.get_default_graph() is not outermost_graph()


def outermost_graph() -> tf.Graph:
    """Returns the trained graph, even inside a branch of a condition, which is a separate graph."""
    with tf.init_scope():
        return tf.get_default_graph()


class ProxyOptimizer(tf.train.Optimizer):
    """Forwards all calls to another optimizer; a subclass adds work before or after them.

    Proxies can be nested. `compute_gradients` always returns the true gradients of the cost, so they may be
    averaged or processed further.

    Args:
        optimizer: a `tf.train.Optimizer`.

    Raises:
        TypeError: `optimizer` is another object; for a Keras optimizer, the message names its replacement.

    Example:
        >>> class Counted(ProxyOptimizer):
        ...     def apply_gradients(self, *args, **kwargs):
        ...         print("applied")
        ...         return super().apply_gradients(*args, **kwargs)
        >>> with tf.Graph().as_default():
        ...     weight = tf.get_variable("weight", [])
        ...     train_op = Counted(tf.train.AdamOptimizer(1e-3)).minimize(tf.square(weight))
        applied
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
