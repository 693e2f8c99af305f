"""What a callback may know of the loop that drives it, and nothing more.

`towerpack_trainers.Trainer` keeps to this protocol; so does the bridge that runs callbacks on plain
`SessionRunHook`s (`as_session_hooks`). A loop of your own can, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow.compat.v1 as tf

from ._loop_state import LoopState

if TYPE_CHECKING:
    from ..monitors import Monitors

__all__ = ["InferenceTower", "TrainerProtocol"]


class InferenceTower(Protocol):
    """One replica of the model for evaluation, fed by an input of its own."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Tensors of this replica by the names the model gave them."""

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input, each datapoint exactly once.

        Args:
            fetches: what to fetch of each batch, any structure `Session.run` takes.

        Yields:
            The fetched values of one batch, and the number of examples in it.
        """


class TrainerProtocol(Protocol):
    """The loop as callbacks see it."""

    @property
    def graph(self) -> tf.Graph:
        """The graph; ops may be added in `_setup_graph` only."""

    @property
    def sess(self) -> tf.Session:
        """The session, from `_before_train` on. Running input-dependent ops here takes a datapoint."""

    @property
    def coord(self) -> tf.train.Coordinator:
        """Where a background thread reports its failure (`request_stop`), so that the loop raises it."""

    @property
    def loop(self) -> LoopState:
        """The counters."""

    @property
    def monitors(self) -> Monitors:
        """Where statistics go."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes (checkpoints, events)."""

    @property
    def log_dir(self) -> Path | None:
        """The directory of this run's files; None when the user wants none."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Tensors or ops by name, looked up in the whole graph, then in the first training tower."""

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """A function from input arrays to output arrays, on the model's current variables."""

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica for evaluation over `source`; call it in `_setup_graph`.

        Args:
            source: a DataFlow, or an InputSource that ends after one pass.
            name: name scope of the replica.
            devices: several devices: one replica on each, which share the datapoints of `source` (a DataFlow
                then) among them, and act as one.
        """

    def state_dict(self) -> dict[str, Any]:
        """Everything besides variables that a checkpoint must hold, as JSON values."""
