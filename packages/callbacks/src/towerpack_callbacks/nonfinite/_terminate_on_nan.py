"""Stops a training at the first value that is not finite, and reports where it comes from."""

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
from ._failing_step import write_folder
from ._find_origin import find_origin

__all__ = ["TerminateOnNaN"]

_log = logging.getLogger("towerpack_callbacks")

_FINE_NOW = "Run again from the same batch and variables, all was finite: something else in it is random."
_WRITES = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}


@final
class TerminateOnNaN(Callback):
    """Ends the training with `NonFiniteError` when a gradient is infinite or no number, and names the op.

    It looks at the gradients that the optimizer applies, before they are applied: weights stay as they were.
    Then it runs the step again, from the same batch and the same weights, follows the values back, and names
    the first op that made one, with the shapes and ranges of its inputs and the line of the model. Batch,
    variables and graph are left in `nonfinite-<step>` in the log directory;
    `python -m towerpack_callbacks.nonfinite FOLDER` then finds the same op, without the model's code.

    Each step pays for looking at the gradients once more, and the first update waits for the last gradient.
    It is made for trainings with one training op; in one with several, they would wait for each other.

    Args:
        names: names of other tensors to look at. None: "cost", where the model has a tensor of that name,
            since a cost may be no number while its gradients still are.

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
                'Name what to look at: TerminateOnNaN(["cost"]).'
            )
        self._sources = sources_of(self._watched)
        flags = [tf.reduce_all(tf.math.is_finite(tensor)) for tensor in self._watched]
        finite = tf.reduce_all(tf.stack(flags))
        # The batch is an input of the branch that is hardly ever taken, so it is there when it is needed, and
        # moves nowhere otherwise.
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
        """Lets the ops that change variables wait until all gradients are checked."""
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
        """Runs within the failing step, in a thread of the session: nothing has been updated yet."""
        step = self.global_step + 1
        try:
            raise NonFiniteError(
                f"In step {step} a gradient or another value looked at became infinite or no number.\n"
                f"{self._explain(step, values)}"
            )
        except NonFiniteError as error:
            self.trainer.coord.request_stop(error)  # so that the loop raises it as it is
            raise

    def _explain(self, step: int, values: Sequence[Any]) -> str:
        batch = {tensor.name: value for tensor, value in zip(self._sources, values)}
        try:
            origin = find_origin(self.trainer.sess, self._watched, batch)
        except Exception as error:
            _log.exception("Looking for the first value that is not finite failed")
            return f"Looking for where it comes from failed: {error}"
        report = _FINE_NOW if origin is None else origin.text
        if self.log_dir is None:
            return report
        folder = self.log_dir / f"nonfinite-{step}"
        try:
            write_folder(folder, self.trainer.sess, self._watched, batch, report)
        except OSError as error:
            return f"{report}\nThe folder {folder} to reproduce it could not be written: {error}"
        return (
            f"{report}\nReproduce it by: python -m towerpack_callbacks.nonfinite {shlex.quote(str(folder))}"
        )
