"""Tells the input of a training from all other data whose end looks the same to TensorFlow."""

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
    """The input of a training, and what else may end: data of callbacks, and of the model itself.

    All of them end with `OutOfRangeError`. Whose it is follows from the callback that the error has left, or
    from the op that it names.

    Attributes:
        source: the input; None for a graph that has data of its own.
        tensors: what the training towers take of it; empty where they are not known.
        callbacks: the callbacks of the run.
        train_op: the op of one step; None if steps may run other ops, too.
        graph: the graph.
    """

    source: InputSource | None
    tensors: Sequence[tf.Tensor]
    callbacks: Callbacks
    train_op: tf.Operation | None
    graph: tf.Graph

    def stop_reason(self, caught: BaseException) -> str | None:
        """Returns why a training stops in good order; None if it fails."""
        if isinstance(caught, StopTraining):
            return str(caught)
        if self.source is None or self.source.infinite or not isinstance(caught, tf.errors.OutOfRangeError):
            return None
        ended = self.callback_of(caught) is None and self._other_op(caught) is None
        return "its input has ended" if ended else None

    def callback_of(self, caught: tf.errors.OutOfRangeError) -> Callback | None:
        """Returns the callback whose data has ended, by itself or in what it fetches, or None."""
        raiser = self.callbacks.raiser_of(caught)
        if raiser is not None:
            return None if self._is_of_the_input(raiser) else raiser
        if self.train_op is None:
            return None
        op = ended_apart_from([self.train_op], caught, self.graph)
        return None if op is None else self.callbacks.fetcher_of(op)

    def describe_end(self, caught: tf.errors.OutOfRangeError) -> str:
        """Returns what has ended, as the beginning of a sentence."""
        op = self._other_op(caught)
        if op is None:
            return "The training input ended"
        return f"Data that the model has besides the training input, of the op {op.name!r}, ended"

    def _is_of_the_input(self, callback: Callback) -> bool:
        return (
            isinstance(callback, HookToCallback)
            and self.source is not None
            and callback.hook in self.source.hooks()
        )

    def _other_op(self, caught: tf.errors.OutOfRangeError) -> tf.Operation | None:
        """The op whose data has ended, if it is none of the input."""
        return ended_apart_from(self.tensors, caught, self.graph) if self.tensors else None
