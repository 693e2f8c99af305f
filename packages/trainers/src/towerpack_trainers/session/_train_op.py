"""The op of one step of a training, set once by whoever builds the graph."""

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
        op: the op; None as long as none is set.
        lead: what runs before it in each step, known once it is fixed; None: nothing.
        takes: how many times a step takes from the input, for each tower.
    """

    def __init__(self) -> None:
        self.op: tf.Operation | None = None
        self.lead: Lead | None = None
        self.takes = 1
        self._make_lead: Callable[[], Lead | None] | None = None
        self._fixed = False

    def compose(self, takes: int, make_lead: Callable[[], Lead | None]) -> None:
        """Makes each step one of several parts.

        Args:
            takes: how many times it takes from the input, for each tower.
            make_lead: completes the op, and returns what runs before it. Called once, in the graph, when the
                callbacks are set up, so that what they have added to the parts is repeated with them.
        """
        self.takes, self._make_lead = takes, make_lead

    def get(self, trainer: str) -> tf.Operation:
        """Returns the op.

        Args:
            trainer: the trainer's name, for messages.

        Raises:
            TrainerStateError: none is set.
        """
        if self.op is None:
            raise TrainerStateError(
                f"{trainer} has no train_op. Set trainer.train_op, or override _setup() or run_step()."
            )
        return self.op

    def put(self, value: Any, graph: tf.Graph) -> tf.Operation:
        """Sets and returns the op of `value`, which is one of the trainer's graph unless that is empty.

        Args:
            value: an op, or a tensor of a graph.
            graph: what the trainer has built.

        Raises:
            TypeError: `value` is neither.
            ConfigError: the op is in another graph than the one that the trainer has built.
            TrainerStateError: the callbacks are set up already.
        """
        if self._fixed:
            raise TrainerStateError("train_op cannot be changed once the callbacks are set up.")
        op = value if isinstance(value, tf.Operation) else getattr(value, "op", value)
        if not isinstance(op, tf.Operation):
            raise TypeError(f"train_op must be a TensorFlow op of a graph, received {op!r}.")
        if op.graph is not graph and graph.get_operations():
            raise ConfigError(f"train_op {op.name!r} is not in the graph this trainer has built.")
        self.op = op
        return op

    def fix(self) -> tf.Operation:
        """Lets no other op be set from now on; returns the op, or one that does nothing if there is none."""
        self._fixed = True
        if self._make_lead is not None:
            self.lead = self._make_lead()
        return tf.no_op() if self.op is None else self.op
