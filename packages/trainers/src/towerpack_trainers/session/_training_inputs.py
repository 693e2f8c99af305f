"""Attributes an OutOfRangeError to the training input or to another dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, HookToCallback, StopTraining
from towerpack_inputsource import InputSource

from ..towers._ended_data import ended_apart_from

__all__ = ["TrainingInputs"]


@final
@attrs.frozen(eq=False)
class TrainingInputs:
    """The training input, and other data that may end: data of callbacks, and of the model itself.

    All of them end with `OutOfRangeError`. The origin follows from the callback that raised the error, or
    from the op that the error names.

    Attributes:
        source: the input; None for a graph with its own data.
        tensors: the input tensors of the training towers; empty if they are not known.
        callbacks: the callbacks of the run.
        train_op: the op of one step; None if steps may also run other ops.
        graph: the graph.
    """

    source: InputSource | None
    tensors: Sequence[tf.Tensor]
    callbacks: Callbacks
    train_op: tf.Operation | None
    graph: tf.Graph

    def stop_reason(self, caught: BaseException) -> str | None:
        """Returns the reason of a training's normal stop; None if the training failed."""
        if isinstance(caught, StopTraining):
            return str(caught)
        if self.source is None or self.source.infinite or not isinstance(caught, tf.errors.OutOfRangeError):
            return None
        ended = self.callback_of(caught) is None and self._other_op(caught) is None
        return "its input has ended" if ended else None

    def callback_of(self, caught: tf.errors.OutOfRangeError) -> Callback | None:
        """Returns the callback with exhausted data, its own or that of its fetches, or None."""
        raiser = self.callbacks.raiser_of(caught)
        if raiser is not None:
            return None if self._is_of_the_input(raiser) else raiser
        if self.train_op is None:
            return None
        op = ended_apart_from([self.train_op], caught, self.graph)
        return None if op is None else self.callbacks.fetcher_of(op)

    def describe_end(self, caught: tf.errors.OutOfRangeError) -> str:
        """Returns a description of the exhausted data, as the beginning of a sentence."""
        op = self._other_op(caught)
        if op is None:
            return "The training input ended"
        return f"The model's own data (op {op.name!r}), not the training input, ended"

    def _is_of_the_input(self, callback: Callback) -> bool:
        return (
            isinstance(callback, HookToCallback)
            and self.source is not None
            and callback.hook in self.source.hooks()
        )

    def _other_op(self, caught: tf.errors.OutOfRangeError) -> tf.Operation | None:
        """The exhausted op, unless it belongs to the training input."""
        return ended_apart_from(self.tensors, caught, self.graph) if self.tensors else None
