"""The contents of a run's checkpoint besides variables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, CheckpointError, LoopState
from towerpack_inputsource import InputSource

from ._refit_state import WORLD_DIFFERENCES, refit_state

__all__ = ["RunState"]

_log = logging.getLogger("towerpack_trainers")

_ADVICE = 'Use the same data; or restart it from the beginning: TrainConfig(resume_allow=["input"]).'


@final
@attrs.frozen
class RunState:
    """The counters, seed, callbacks and data position of one run, saved and restored together.

    Attributes:
        loop: the counters.
        seed: the seed of the run's random numbers.
        callbacks: the callbacks, set up.
        source: the input; None without one.
        allow: differences between a checkpoint and this run that are not refused: "callbacks", "input",
            "batch", "world".
        inputs: the input tensors of a training tower, if they are known.
    """

    loop: LoopState
    seed: int
    callbacks: Callbacks
    source: InputSource | None
    allow: Collection[str] = ()
    inputs: Sequence[tf.Tensor] = ()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        state = {
            "loop": self.loop.state_dict(),
            "seed": self.seed,
            "callbacks": self.callbacks.state_dict(),
        }
        if self.loop.data_ended:
            state["data_ended"] = True
        if self.source is not None:
            state["input"] = self.source.state_dict()
            state["data"] = self._data()
        return state

    def _data(self) -> dict[str, Any]:
        """Describes the data as far as it is known: its length, and each component's dtype and shape."""
        components = [[tensor.dtype.name, _sizes(tensor.shape)] for tensor in self.inputs]
        return {"datapoints": None if self.source is None else self.source.size(), "components": components}

    def refit(self, state: Mapping[str, Any], processes: int) -> dict[str, Any]:
        """Translates a checkpoint's state to the given number of processes and this run's batches.

        Args:
            state: the return value of `state_dict`, perhaps from another number of processes.
            processes: the current number of processes.

        Raises:
            CheckpointError: the number or the batches differ, and the difference is not allowed or not
                supported.
        """
        return refit_state(state, self.source, self.loop.steps_per_epoch, processes, self.allow)

    def load_state_dict(self, state: Mapping[str, Any], files: Path | None = None) -> None:
        """Restores counters, callbacks and the position in the data. The seed is restored earlier.

        Args:
            state: the return value of `state_dict`.
            files: the directory of the callbacks' files; None: they are skipped.

        Raises:
            CheckpointError: a callback's state belongs to no callback of this run, or the data differs.
        """
        given = self.loop.starting_epoch
        self.loop.load_state_dict(state["loop"])
        self.loop.data_ended = bool(state.get("data_ended", False))
        if given not in (1, self.loop.starting_epoch):
            level = logging.WARNING if given > self.loop.starting_epoch else logging.INFO
            goes_on = self.loop.starting_epoch
            _log.log(
                level, "starting_epoch=%d is not used: the resumed run continues in epoch %d.", given, goes_on
            )
        allowed = "callbacks" in self.allow
        self.callbacks.load_state_dict(state["callbacks"], allow_unknown=allowed, files=files)
        self._load_position(state.get("input"), state.get("data"))

    def _load_position(self, position: dict[str, Any] | None, data: Mapping[str, Any] | None) -> None:
        if self.source is None or position is None:
            return
        if "input" in self.allow:
            _log.warning("The data restarts from the beginning (allowed by resume_allow): %s", position)
            return
        differences = list(_differences(data, self._data())) if data else []
        if differences:
            fits = not set(WORLD_DIFFERENCES) & set(self.allow) or self.source.refit(position) is not None
            raise CheckpointError(
                f"The data differs from that of the checkpoint: {'; '.join(differences)}. "
                f"{'' if fits else self._why_not_fitted()}{_ADVICE}"
            )
        if position.get("flow", position) is None:
            _log.warning(
                "The input has no state_dict(), so it restarts from the beginning: the resumed run will "
                "differ from an uninterrupted one. Use a DataFlow with a position, for example "
                "DataFromList(your_list)."
            )
        try:
            self.source.load_state_dict(position)
        except ValueError as error:
            raise CheckpointError(f"The position does not match the data: {error} {_ADVICE}") from error

    def _why_not_fitted(self) -> str:
        return (
            "Other batch sizes are supported only if a BatchData of the flow makes the batches, and "
            f"{type(self.source).__name__} reads no such flow: a batch that is made in the graph may cross "
            "the end of a pass, so its beginning has no position. Train from the start with QueueInput over "
            "BatchData(flow, n), which supports other sizes. "
        )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """Yields the differences between two descriptions of data, as far as both are known."""
    sizes = theirs.get("datapoints"), ours["datapoints"]
    if None not in sizes and sizes[0] != sizes[1]:
        yield f"{sizes[1]} datapoints in a pass, {sizes[0]} in the checkpoint"
    pairs = zip(theirs.get("components", ()), ours["components"])
    for number, (their, our) in enumerate(pairs):
        if not _may_be_equal(their, our):
            yield f"component {number} is {_words(our)}, {_words(their)} in the checkpoint"


def _may_be_equal(their: Sequence[Any], our: Sequence[Any]) -> bool:
    (their_type, their_shape), (our_type, our_shape) = their, our
    shapes = tf.TensorShape(their_shape), tf.TensorShape(our_shape)
    return bool(their_type == our_type and shapes[0].is_compatible_with(shapes[1]))


def _sizes(shape: tf.TensorShape) -> list[int | None] | None:
    return None if shape.rank is None else list(shape.as_list())


def _words(component: Sequence[Any]) -> str:
    dtype, shape = component
    return f"{dtype} of shape {shape}"
