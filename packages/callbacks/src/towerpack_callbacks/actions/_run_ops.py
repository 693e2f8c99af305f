"""Callbacks that run ops of the graph, together with steps or between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import NonFiniteError
from ..callback import EVERY_EPOCH, Callback, Every, StepFetch

__all__ = ["CheckNumerics", "RunOp", "RunUpdateOps"]


@final
class RunUpdateOps(Callback):
    """Runs the ops of a graph collection with every step, such as the updates of batch normalisation.

    Args:
        collection: name of the collection.
    """

    chief_only = False

    def __init__(self, collection: str = tf.GraphKeys.UPDATE_OPS) -> None:
        self._collection = collection
        self._op: tf.Operation | None = None

    def _setup_graph(self) -> None:
        # An op created inside a tf.cond branch lands in the outer collection but cannot be run from outside.
        updates = [
            u for u in self.graph.get_collection(self._collection) if _operation(u).graph is self.graph
        ]
        self._op = tf.group(*updates, name="update_ops") if updates else None

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._op is None else [StepFetch(self._op)]


@final
class RunOp(Callback):
    """Runs an op: copies weights to a target network, resets a state between training and evaluation.

    Before the training and at triggers the op runs in a separate session call, which consumes a datapoint if
    the op depends on the input.

    Args:
        op: the op; or a function without arguments that makes it, called while the graph is set up.
        run_before: run it once before the first step.
        run_as_trigger: run it at each trigger.
        run_step: run it along with every step.

    Raises:
        TypeError: `op` is neither an op nor a function.
        ValueError: the op would never run.

    Example:
        ```python
        PeriodicTrigger(RunOp(make_copy_weights_op), every_k_steps=1000)
        ```
    """

    chief_only = False

    def __init__(
        self,
        op: tf.Operation | tf.Tensor | Callable[[], tf.Operation | tf.Tensor],
        run_before: bool = True,
        run_as_trigger: bool = True,
        run_step: bool = False,
    ) -> None:
        if not (callable(op) or isinstance(op, tf.Operation) or tf.is_tensor(op)):
            raise TypeError(f"RunOp takes an op or a function that makes one, received {op!r}.")
        if not (run_before or run_as_trigger or run_step):
            raise ValueError("RunOp would never run its op: set run_before, run_as_trigger or run_step.")
        self._given = op
        self._run_before, self._run_as_trigger, self._run_step = run_before, run_as_trigger, run_step

    def _setup_graph(self) -> None:
        made = self._given
        if callable(made) and not isinstance(made, tf.Operation) and not tf.is_tensor(made):
            made = made()
            if not isinstance(made, tf.Operation) and not tf.is_tensor(made):
                raise TypeError(f"RunOp: the function must return an op, it returned {made!r}.")
        self._op: tf.Operation = _operation(made)

    def _before_train(self) -> None:
        self._run = self.trainer.sess.make_callable(self._op)
        if self._run_before:
            self._run()

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._op)] if self._run_step else []

    def _trigger(self) -> None:
        if self._run_as_trigger:
            self._run()

    def epoch_period(self) -> Every | None:
        return EVERY_EPOCH if self._run_as_trigger else None


@final
class CheckNumerics(Callback):
    """Checks at each trigger that all variables of a collection are finite.

    Non-finite values are detected late, but steps between triggers cost nothing. `TerminateOnNaN` detects
    them at once and finds the op.

    Args:
        collection: name of the collection.

    Raises:
        NonFiniteError: (at a trigger) some values are not finite.
    """

    def __init__(self, collection: str = tf.GraphKeys.TRAINABLE_VARIABLES) -> None:
        self._collection = collection

    def _setup_graph(self) -> None:
        variables = [v for v in self.graph.get_collection(self._collection) if v.dtype.is_floating]
        self._names = [variable.op.name for variable in variables]
        flags = [tf.reduce_all(tf.math.is_finite(variable)) for variable in variables]
        self._finite: tf.Tensor | None = tf.stack(flags) if flags else None

    def _trigger(self) -> None:
        if self._finite is None:
            return
        finite: np.ndarray[Any, Any] = self.trainer.sess.run(self._finite)
        bad = [name for name, fine in zip(self._names, finite) if not fine]
        if bad:
            raise NonFiniteError(
                f"After step {self.global_step}, {len(bad)} of {len(finite)} variables have values that are "
                f"not finite: {', '.join(bad[:5])}{', ...' if len(bad) > 5 else ''}. "
                "TerminateOnNaN() reports the first step and op with such values."
            )


def _operation(update: tf.Tensor | tf.Operation) -> tf.Operation:
    return update if isinstance(update, tf.Operation) else update.op
