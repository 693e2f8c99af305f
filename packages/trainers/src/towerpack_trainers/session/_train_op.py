"""The op of one step of a training, set once by the builder of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import ConfigError, TrainerStateError
from ..step import Lead

__all__ = ["TrainOp"]


@final
class TrainOp:
    """Holds the op of one step. It may be set until the callbacks are set up.

    Attributes:
        op: the op; None until it is set.
        lead: the ops that run before it in each step, known once it is fixed; None: none.
        takes: the number of datapoints that a step takes from the input, for each tower.
    """

    def __init__(self) -> None:
        self.op: tf.Operation | None = None
        self.lead: Lead | None = None
        self.takes = 1
        self._make_lead: Callable[[], Lead | None] | None = None
        self._fixed = False

    def compose(self, takes: int, make_lead: Callable[[], Lead | None]) -> None:
        """Makes each step a sequence of several parts.

        Args:
            takes: the number of datapoints that a step takes from the input, for each tower.
            make_lead: completes the op, and returns the ops before it. Called once, in the graph, after the
                callbacks are set up, so that their additions to the parts are repeated as well.
        """
        self.takes, self._make_lead = takes, make_lead

    def get(self, trainer: str) -> tf.Operation:
        """Returns the op.

        Args:
            trainer: the trainer's name, for messages.

        Raises:
            TrainerStateError: no op is set.
        """
        if self.op is None:
            raise TrainerStateError(
                f"{trainer} has no train_op. Set trainer.train_op, or override _setup() or run_step()."
            )
        return self.op

    def put(self, value: Any, graph: tf.Graph) -> tf.Operation:
        """Sets and returns the op of `value`, which must be in the trainer's graph unless that is empty.

        Args:
            value: an op, or a tensor of a graph.
            graph: the trainer's graph.

        Raises:
            TypeError: `value` is neither.
            ConfigError: the op is in another graph than the one that the trainer has built.
            TrainerStateError: the callbacks are already set up.
        """
        if self._fixed:
            raise TrainerStateError("train_op cannot be changed once the callbacks are set up.")
        op = value if isinstance(value, tf.Operation) else getattr(value, "op", value)
        if not isinstance(op, tf.Operation):
            raise TypeError(f"train_op must be a TensorFlow op of a graph, received {op!r}.")
        if op.graph is not graph and graph.get_operations():
            raise ConfigError(f"train_op {op.name!r} is not in the graph of this trainer.")
        self.op = op
        return op

    def fix(self) -> tf.Operation:
        """Fixes the op; returns it, or an op that does nothing if none is set."""
        self._fixed = True
        if self._make_lead is not None:
            self.lead = self._make_lead()
        return tf.no_op() if self.op is None else self.op
