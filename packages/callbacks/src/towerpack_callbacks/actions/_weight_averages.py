"""Moving averages of weights, evaluation with them, and weights clipped to a range."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback._callback import Callback
from ..callback._every import EVERY_STEP, Every, as_every, check_number_above_zero
from ..callback._proxy_callback import ProxyCallback
from ..graph import begin_as_copies, copies_are_due, find_applied_gradients, floating_variables

__all__ = ["EMA", "ClipWeights", "averaged_variables"]


_SUFFIX = "/ExponentialMovingAverage"  # as tf.train.ExponentialMovingAverage names them
_COUNTER = re.compile(r"EMA/(.+/)?updates")


@final
class EMA(Callback):
    """Keeps exponential moving averages of the weights, which often evaluate better than the weights.

    After each step, `average = decay * average + (1 - decay) * weight`. Initially the decay is smaller,
    `(1 + n) / (10 + n)` after n updates, so that averages do not stick to the initial weights. The averages
    start as copies of the weights at the beginning of the training. If weights are restored from a checkpoint
    without averages, they start as copies of the restored weights.

    The averages are global variables named `<variable>/ExponentialMovingAverage`: checkpoints contain them,
    and a resumed run continues them. `averaged_variables` extracts them from a checkpoint for export. If
    several processes train together, the chief saves and evaluates its own averages: after a resume, the
    averages of the other processes start as copies of the weights again.

    With a scope, only the weights of one network are averaged, such as the generator of a GAN; applying the
    averages leaves all other weights unchanged. Use one `EMA` per network.

    Args:
        decay: the decay, at least 0 and below 1.
        every: the period of the updates.
        collection: graph collection of the variables.
        scope: the variable scope to average, such as "gen"; None: the whole collection.

    Raises:
        ValueError: the decay is out of range; or (at set-up) some variables already have averages.
        ScopeError: (at set-up) the scope contains no variable to average; the message lists the scopes.

    Example:
        ```python
        ema = EMA(0.999)
        callbacks = [ema, ema.applied_to(InferenceRunner(flow, ScalarStats("cost")))]
        ```
    """

    chief_only = False

    def __init__(
        self,
        decay: float = 0.999,
        every: Every | str = EVERY_STEP,
        collection: str = tf.GraphKeys.TRAINABLE_VARIABLES,
        scope: str | None = None,
    ) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"EMA(decay={decay!r}): expected a number with 0 <= decay < 1.")
        self._decay = decay
        self._every = as_every(every)
        self._collection, self._scope = collection, scope
        self._applied = False

    def applied_to(self, callback: Callback) -> Callback:
        """Wraps a callback so that the averages replace the weights during each of its triggers."""
        return _WithAverages(callback, self)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Replaces the weights by the averages inside the block; nothing is copied.

        Raises:
            RuntimeError: the averages are already applied.
        """
        if self._applied:
            raise RuntimeError(
                "EMA.applied() is already active: the averages have replaced the weights. Do not nest it."
            )
        self._swap()
        self._applied = True
        try:
            yield
        finally:
            self._swap()
            self._applied = False

    def _setup_graph(self) -> None:
        weights = floating_variables(self.graph, self._scope, self._collection)
        self._check_not_averaged(weights)
        counter = "EMA/updates" if self._scope is None else f"EMA/{self._scope.rstrip('/')}/updates"
        # Names must not depend on the scope of the caller.
        with tf.name_scope(None), tf.variable_scope(tf.VariableScope(reuse=None, use_resource=True)):
            averages = [
                tf.get_variable(
                    weight.op.name + _SUFFIX,
                    weight.shape,
                    weight.dtype.base_dtype,
                    tf.zeros_initializer(),
                    trainable=False,
                )
                for weight in weights
            ]
            self._updates = tf.get_variable(counter, [], tf.int64, tf.zeros_initializer(), trainable=False)
        self._averages = averages
        begin_as_copies(self.graph, zip(averages, weights))
        self._start_op = tf.group(*[tf.assign(a, w) for a, w in zip(averages, weights)])
        self._update_op = self._make_update(weights, averages)
        self._swap_op = _make_swap(weights, averages)

    def _check_not_averaged(self, weights: list[tf.Variable]) -> None:
        there = {variable.op.name for variable in self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
        twice = [weight.op.name for weight in weights if weight.op.name + _SUFFIX in there]
        if twice:
            raise ValueError(
                f"{self}: {', '.join(twice[:5])}{', ...' if len(twice) > 5 else ''} already have averages. "
                "Use one EMA for all variables, or several with disjoint scopes."
            )

    def _make_update(self, weights: list[tf.Variable], averages: list[tf.Variable]) -> tf.Operation:
        done = tf.cast(self._updates.read_value(), tf.float64)
        decay = tf.minimum(tf.constant(self._decay, tf.float64), (1 + done) / (10 + done))
        moves = [
            tf.assign_sub(average, tf.cast(1 - decay, average.dtype) * (average - weight))
            for average, weight in zip(averages, weights)
        ]
        with tf.control_dependencies([decay]):
            return tf.group(*moves, tf.assign_add(self._updates, 1))

    def _before_train(self) -> None:
        sess = self.trainer.sess
        if copies_are_due(self.graph, self._averages) and not sess.run(self._updates):
            sess.run(self._start_op)
        self._update = sess.make_callable(self._update_op)
        self._swap = sess.make_callable(self._swap_op)

    def step_period(self) -> Every | None:
        return self._every

    def _trigger_step(self) -> None:
        # A separate call: within the step it might read the weights either before or after their update.
        self._update()

    def __str__(self) -> str:
        return "EMA" if self._scope is None else f"EMA(scope={self._scope!r})"


@final
class _WithAverages(ProxyCallback):
    """Triggers a callback while the averages replace the weights."""

    def __init__(self, callback: Callback, ema: EMA) -> None:
        super().__init__(callback)
        self._ema = ema

    def _trigger_epoch(self) -> None:
        with self._ema.applied():
            self.callback._trigger_epoch()

    def _trigger(self) -> None:
        with self._ema.applied():
            self.callback._trigger()

    def overrides(self, method: str) -> bool:
        return self.callback.overrides(method)

    def __str__(self) -> str:
        return f"{self._ema}.applied_to({self.callback})"


def averaged_variables(variables: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Returns a checkpoint's variables with the weights replaced by their averages, for export or prediction.

    Args:
        variables: arrays by variable name, such as `checkpoint.load_variables(path)`.

    Returns:
        Arrays by the names of the weights, without separate entries for the averages.

    Raises:
        ValueError: the variables contain no averages.

    Example:
        >>> averaged_variables({"W": 1.0, "W/ExponentialMovingAverage": 2.0, "global_step": 3})
        {'W': 2.0, 'global_step': 3}
    """
    averages = {name: value for name, value in variables.items() if name.endswith(_SUFFIX)}
    if not averages:
        raise ValueError(
            f"Among {len(variables)} variables no name ends with {_SUFFIX!r}: they were not saved with "
            f"EMA(). Give variables of a run that used EMA()."
        )
    kept = {name: v for name, v in variables.items() if name not in averages and not _COUNTER.fullmatch(name)}
    return {**kept, **{name.removesuffix(_SUFFIX): value for name, value in averages.items()}}


def _make_swap(weights: list[tf.Variable], averages: list[tf.Variable]) -> tf.Operation:
    both = [variable.read_value() for variable in [*weights, *averages]]
    with tf.control_dependencies(both):
        # An assignment takes ownership of its input buffer, so this moves no data.
        crosswise = zip([*averages, *weights], both)
        return tf.group(*[tf.assign(variable, value) for variable, value in crosswise])


@final
class ClipWeights(Callback):
    """Clips the weights of a scope to [-limit, limit] after each of their updates, and before the first step.

    This keeps the critic of a Wasserstein GAN Lipschitz (Arjovsky et al. 2017, arXiv:1701.07875, with a limit
    of 0.01). Clipping is part of the update, also if one step updates the critic several times. If an
    optimizer does not use TensorFlow's fused update ops, its weights are clipped in a separate session call
    after each step.

    Args:
        limit: the largest absolute value of a weight.
        scope: the variable scope of the weights, such as "discrim"; None: all trainable variables.

    Raises:
        ValueError: the limit is not a number above 0.
        ScopeError: (at set-up) the scope has no floating-point variable; the message lists the scopes.

    Example:
        ```python
        ClipWeights(0.01, scope="discrim")
        ```
    """

    chief_only = False

    def __init__(self, limit: float, scope: str | None = None) -> None:
        check_number_above_zero(f"ClipWeights(limit={limit!r})", limit)
        self._limit, self._scope = limit, scope

    def _setup_graph(self) -> None:
        weights = floating_variables(self.graph, self._scope)
        weights += list(_copies_in_towers(self.graph, weights))
        self._clip_op = tf.group(*map(self._clipped, weights))
        clipped = {id(weight) for weight in weights if self._clip_in_updates(weight)}
        rest = [weight for weight in weights if id(weight) not in clipped]
        self._clip_after_step = tf.group(*map(self._clipped, rest)) if rest else None

    def _clip_in_updates(self, weight: tf.Variable) -> bool:
        """Makes ops that wait for a weight's update wait for its clipping; returns whether any exist."""
        found = False
        for update in find_applied_gradients(self.graph, [weight]):
            waiting = list(update.op._control_outputs)
            with tf.control_dependencies([update.op]):
                clipped = self._clipped(weight)
            for op in waiting:
                op._add_control_input(clipped)
                found = True
        return found

    def _clipped(self, weight: tf.Variable) -> tf.Operation:
        with tf.device(weight.device):
            value = tf.clip_by_value(weight.read_value(), -self._limit, self._limit)
            return tf.assign(weight, value).op

    def _before_train(self) -> None:
        sess = self.trainer.sess
        sess.run(self._clip_op)
        if self._clip_after_step is not None:
            self._clip = sess.make_callable(self._clip_after_step)

    def step_period(self) -> Every | None:
        return None if self._clip_after_step is None else EVERY_STEP

    def _trigger_step(self) -> None:
        if self._clip_after_step is not None:
            self._clip()

    def __str__(self) -> str:
        return f"ClipWeights({self._limit}, scope={self._scope!r})"


def _copies_in_towers(graph: tf.Graph, weights: list[tf.Variable]) -> Iterator[tf.Variable]:
    """Finds the replicas' copies of the weights, which must stay equal to them."""
    names = {weight.op.name for weight in weights}
    for variable in graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES):
        if re.sub(r"^tower\d+/", "", variable.op.name) in names:
            yield variable
