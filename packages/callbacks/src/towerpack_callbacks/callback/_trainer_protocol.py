"""The loop as callbacks see it: methods, statistics to watch, and states to restore.

`towerpack_trainers.Trainer` implements `TrainerProtocol`; so does `as_session_hooks`, which runs callbacks as
plain `SessionRunHook`s. A custom loop can implement it, too.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._every import LoopState

__all__ = [
    "InferenceTower",
    "StatisticWatch",
    "StatisticsStore",
    "TrainerProtocol",
    "forget_state",
    "is_better",
    "load_state_of",
    "state_of",
]

_log = logging.getLogger("towerpack_callbacks")


class InferenceTower(Protocol):
    """A replica of the model for evaluation, with a separate input.

    Example:
        >>> def outputs(tower: InferenceTower) -> int:
        ...     fetches = tower.get_tensors(["fc1/output"])
        ...     return sum(number for values, number in tower.evaluate(fetches))
    """

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors of this replica by their names in the model."""

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input, each datapoint exactly once.

        A few small batches may be computed before the first of them is yielded: change no variable meanwhile.

        Args:
            fetches: the fetches of each batch, any structure that `Session.run` takes.

        Yields:
            The fetched values of one batch, and the number of examples in it.
        """


class StatisticsStore(Protocol):
    """Stores the statistics that callbacks put, and returns them to other callbacks; see `Monitors`.

    Statistics have names such as "cost" or "validation_accuracy". Values belong to the loop's `global_step`.
    """

    def put_scalar(self, name: str, value: float | np.ndarray) -> None:
        """Records a number, or an array of one element."""

    def put_image(self, name: str, images: np.ndarray) -> None:
        """Records images: [height, width], [height, width, channels] or [number, height, width, channels]."""

    def put_histogram(self, name: str, values: np.ndarray) -> None:
        """Records the distribution of an array's values."""

    def put_summary(self, serialized: bytes) -> None:
        """Records the values of a serialized `tf.Summary`."""

    def put_message(self, text: str) -> None:
        """Records a line of text for the user."""

    def get_latest(self, name: str) -> float:
        """Returns the newest value of a scalar."""

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """Returns the values of a scalar as pairs (global_step, value), the oldest first."""

    def __contains__(self, name: str) -> bool:
        """Returns whether a scalar of this name has been put."""


class TrainerProtocol(Protocol):
    """The loop as callbacks see it.

    Example:
        >>> from towerpack_callbacks import CallbackFactory
        >>> def record_gain(trainer: TrainerProtocol) -> None:
        ...     [gain] = trainer.sess.run(trainer.get_tensors(["gain"]))
        ...     trainer.monitors.put_scalar("gain", gain)
        >>> callbacks = [CallbackFactory(trigger=record_gain)]
    """

    @property
    def graph(self) -> tf.Graph:
        """The graph; ops may be added in `_setup_graph` only."""

    @property
    def sess(self) -> tf.Session:
        """The session, from `_before_train` on. Running input-dependent ops in it consumes a datapoint."""

    @property
    def coord(self) -> tf.train.Coordinator:
        """The coordinator: a thread reports its failure by `request_stop`, and the loop raises it."""

    @property
    def loop(self) -> LoopState:
        """The counters."""

    @property
    def monitors(self) -> StatisticsStore:
        """The store of statistics."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and events."""

    @property
    def log_dir(self) -> Path | None:
        """The directory of this run's files; None if it has none."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors or ops by name, looked up in the whole graph, then in the first training tower."""

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """Returns a function from input arrays to output arrays, on the model's current variables."""

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica for evaluation over `source`; call it in `_setup_graph`.

        Args:
            source: a DataFlow, or an InputSource that ends after one pass.
            name: name scope of the replica.
            devices: with several devices, one replica on each; they divide the datapoints of `source`, which
                must be a DataFlow, and act as one.
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns everything besides variables that a checkpoint must hold, as JSON values."""

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files to folders of a checkpoint, right after `state_dict()`.

        Args:
            directory: the parent of the folders; `Callbacks.save_files` creates it if there are any.
        """


@final
class StatisticWatch:
    """Follows one statistic. Its period may be longer than the reader's, so some reads find no new value.

    Args:
        name: name of the statistic.

    Attributes:
        seen_step: the step of the value that `next_value` returned last, -1 before the first. The reader
            saves it in its state, so that a resumed run uses no value twice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen_step = -1

    def value_at(self, statistics: StatisticsStore, global_step: int) -> float | None:
        """Returns the newest value if it was put at the given step, else None."""
        newest = self._newest(statistics)
        return newest[1] if newest is not None and newest[0] == global_step else None

    def next_value(self, statistics: StatisticsStore) -> float | None:
        """Returns the newest value if its step differs from that of the last call, else None."""
        newest = self._newest(statistics)
        if newest is None or newest[0] == self.seen_step:
            return None
        self.seen_step, value = newest
        return value

    def _newest(self, statistics: StatisticsStore) -> tuple[int, float] | None:
        return statistics.get_history(self.name)[-1] if self.name in statistics else None


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Returns whether a value is better than the best value so far.

    Args:
        value: the value; NaN is never better.
        best: the best value so far, or None.
        mode: "max" if higher is better, "min" if lower is.
        min_delta: the minimum improvement.

    Example:
        >>> is_better(0.5, 0.6, "min"), is_better(0.5, 0.6, "min", 0.2), is_better(0.5, None, "max")
        (True, False, True)
    """
    if math.isnan(value):
        return False
    return best is None or (value - best if mode == "max" else best - value) > min_delta


class HasState(Protocol):
    """An object with a state, such as a callback."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""


def state_of(callback: HasState) -> dict[str, Any]:
    """Returns the state of an object as a callback.

    If the object is also a flow, its `state_dict()` belongs to the flow, and the training's input saves and
    restores it. Its callback state comes from `callback_state_dict()` and is restored by
    `load_callback_state_dict(state)`; without these methods it has no callback state.
    """
    if not _is_flow(callback):
        return callback.state_dict()
    state: dict[str, Any] = getattr(callback, "callback_state_dict", dict)()
    return state


def load_state_of(callback: HasState, state: dict[str, Any]) -> None:
    """Restores the state of an object as a callback."""
    if not _is_flow(callback):
        callback.load_state_dict(state)
    elif hasattr(callback, "load_callback_state_dict"):
        callback.load_callback_state_dict(state)
    else:
        _log.info("%s is also a flow and has no callback state; ignoring the saved state.", callback)


def forget_state(callback: HasState, first: dict[str, Any] | None) -> dict[str, Any]:
    """Resets a callback to its first initial state, unless it already has it.

    Args:
        callback: the callback.
        first: the first initial state; None: the present state is the first.

    Returns:
        The first initial state, as a copy that no training changes.
    """
    state = state_of(callback)
    if first is None:
        return copy.deepcopy(state)
    if _differs(state, first):
        load_state_of(callback, copy.deepcopy(first))
    return first


def _differs(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one != other
    except ValueError:  # arrays in the state, which no checkpoint could save
        return True


def _is_flow(callback: HasState) -> bool:
    """Returns whether a callback is also a flow, judged by its methods: this wheel does not import flows."""
    return hasattr(callback, "__iter__") and hasattr(callback, "reset_state")
