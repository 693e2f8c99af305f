"""The protocols through which a callback sees the loop that drives it.

`towerpack_trainers.Trainer` implements `TrainerProtocol`; so does `as_session_hooks`, which runs callbacks as
plain `SessionRunHook`s. A custom loop can implement it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from ._loop_state import LoopState

__all__ = ["InferenceTower", "StatisticsStore", "TrainerProtocol"]


class InferenceTower(Protocol):
    """A replica of the model for evaluation, with a separate input."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors of this replica by their names in the model."""

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input, each datapoint exactly once.

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
    """The loop as callbacks see it."""

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
