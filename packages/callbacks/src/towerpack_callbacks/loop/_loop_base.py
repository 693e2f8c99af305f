"""The common part of all loops on a graph: tensors, predictors and the state to save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback import Callback, InferenceTower, LoopState
from ..graph import find_tensors
from ..monitors import Monitors
from ._callbacks import Callbacks

__all__ = ["LoopBase", "make_predictor"]


def make_predictor(
    get_session: Callable[[], tf.Session], feeds: Sequence[tf.Tensor], fetches: Sequence[tf.Tensor]
) -> Callable[..., list[Any]]:
    """Makes a function that takes one array per tensor of `feeds` and returns one per tensor of `fetches`.

    Args:
        get_session: called at each prediction, so that the session may be created later.
        feeds: tensors to feed.
        fetches: tensors to fetch.

    Raises:
        ValueError: a tensor to feed is listed twice.
    """
    names = [feed.op.name for feed in feeds]
    fed = [feed.name for feed in feeds]
    if twice := sorted({name for name in fed if fed.count(name) > 1}):
        raise ValueError(f"A predictor takes each input once, received {', '.join(twice)} more than once.")

    def predict(*arrays: np.ndarray) -> list[Any]:
        if len(arrays) != len(names):
            raise TypeError(
                f"The predictor takes {len(names)} arrays ({', '.join(names)}), received {len(arrays)}."
            )
        sess = get_session()
        # Outside its graph, a tensor cannot be a dictionary key if eager execution is enabled.
        with sess.graph.as_default():
            outputs: list[Any] = sess.run(list(fetches), dict(zip(feeds, arrays)))
        return outputs

    return predict


class LoopBase(ABC):
    """The part of `TrainerProtocol` that needs no description of the model.

    Args:
        callbacks: the callbacks, in their order.
        monitors: the recorders of statistics.
        loop: the counters.
        log_dir: the directory for files; None: no files are written.
    """

    is_chief = True
    graph: tf.Graph = None
    sess: tf.Session = None
    coord: tf.train.Coordinator = None

    def __init__(
        self,
        callbacks: Iterable[Callback | Callbacks],
        monitors: Monitors,
        loop: LoopState,
        log_dir: Path | None,
    ) -> None:
        self.callbacks = Callbacks(callbacks)
        self.monitors = monitors
        self.loop = loop
        self.log_dir = log_dir

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name."""
        return find_tensors(self.graph, names)

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """Returns a function from input arrays to output arrays."""
        feeds, fetches = self.get_tensors(input_names), self.get_tensors(output_names)
        return make_predictor(lambda: self.sess, feeds, fetches)

    @abstractmethod
    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica for evaluation over `source`."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the contents of a checkpoint besides variables."""
        return {"loop": self.loop.state_dict(), "callbacks": self.callbacks.state_dict()}

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files to folders of a checkpoint."""
        self.callbacks.save_files(directory)
