"""Stops a training at the first non-finite value, and reports its origin."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import NonFiniteError, TensorNotFoundError
from ..callback import Callback, StepFetch
from ..graph import as_names, find_ancestors, find_applied_gradients, sources_of
from ._find_origin import find_origin, write_folder

__all__ = ["TerminateOnNaN"]

_log = logging.getLogger("towerpack_callbacks")

_FINE_NOW = "In a second run with the same batch and variables all values were finite: the step is random."
_WRITES = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}


@final
class TerminateOnNaN(Callback):
    """Ends the training with `NonFiniteError` when a gradient is infinite or NaN, and names the op.

    It checks the gradients before the optimizer applies them: weights are unchanged. Then it runs the step
    again from the same batch and weights, traces the values back, and names the first op that made one, with
    the shapes and ranges of its inputs and the line of the model. It writes batch, variables and graph to
    `nonfinite-<step>` in the log directory; `python -m towerpack_callbacks.nonfinite FOLDER` then finds the
    same op without the model's code.

    The check reads all gradients in each step, and the first update waits for the last gradient. Use it in
    trainings with one training op; several training ops would wait for each other.

    Args:
        names: names of other tensors to check. None: "cost" if the model has a tensor of that name, since a
            cost may be NaN while its gradients are finite.

    Raises:
        ValueError: (at set-up) no gradient is found, and no names are given.
    """

    chief_only = False

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = None if names is None else as_names(names)
        self._gate: tf.Operation | None = None

    def _setup_graph(self) -> None:
        applied = find_applied_gradients(self.graph)
        self._watched = [*self._find_named(), *(one.gradient for one in applied)]
        if not self._watched:
            raise ValueError(
                "TerminateOnNaN finds no optimizer's update in the graph, and no names were given. "
                'Give the names of tensors to check: TerminateOnNaN(["cost"]).'
            )
        self._sources = sources_of(self._watched)
        flags = [tf.reduce_all(tf.math.is_finite(tensor)) for tensor in self._watched]
        finite = tf.reduce_all(tf.stack(flags))
        # The batch is an input of the branch that is rarely taken, so it is available there, and is not moved
        # otherwise.
        checked = tf.cond(
            finite, lambda: tf.constant(True), lambda: tf.numpy_function(self._fail, self._sources, tf.bool)
        )
        self._hold_back([one.op for one in applied], checked.op)
        self._gate = None if applied else checked.op

    def _find_named(self) -> list[tf.Tensor]:
        if self._names is not None:
            return self.trainer.get_tensors(self._names)
        try:
            return [cost for cost in self.trainer.get_tensors(["cost"]) if cost.dtype.is_floating]
        except TensorNotFoundError:
            return []

    def _hold_back(self, updates: Sequence[tf.Operation], gate: tf.Operation) -> None:
        """Makes the ops that change variables wait until all gradients are checked."""
        collected = [getattr(op, "op", op) for op in self.graph.get_collection(tf.GraphKeys.UPDATE_OPS)]
        statistics = {
            op
            for op in find_ancestors(op for op in collected if op.graph is self.graph)
            if op.type in _WRITES
        }
        needed = find_ancestors([gate])
        for op in (*updates, *statistics):
            if op not in needed:
                op._add_control_input(gate)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._gate is None else [StepFetch(self._gate)]

    def _fail(self, *values: Any) -> np.bool_:
        """Runs within the failing step, in a thread of the session, before any update."""
        step = self.global_step + 1
        try:
            raise NonFiniteError(
                f"In step {step} a gradient or another checked value became infinite or NaN.\n"
                f"{self._explain(step, values)}"
            )
        except NonFiniteError as error:
            self.trainer.coord.request_stop(error)  # so that the loop raises the same error
            raise

    def _explain(self, step: int, values: Sequence[Any]) -> str:
        batch = {tensor.name: value for tensor, value in zip(self._sources, values)}
        try:
            origin = find_origin(self.trainer.sess, self._watched, batch)
        except Exception as error:
            _log.exception("The search for the first non-finite value failed")
            return f"The search for its origin failed: {error}"
        report = _FINE_NOW if origin is None else origin.text
        if self.log_dir is None:
            return report
        folder = self.log_dir / f"nonfinite-{step}"
        try:
            write_folder(folder, self.trainer.sess, self._watched, batch, report)
        except OSError as error:
            return f"{report}\nThe folder {folder} for reproducing it could not be written: {error}"
        return (
            f"{report}\nReproduce it with: python -m towerpack_callbacks.nonfinite {shlex.quote(str(folder))}"
        )
