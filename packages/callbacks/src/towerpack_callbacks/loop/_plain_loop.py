"""The base of loops without a trainer, and the smallest of them, which trains a straight line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..callback._callback import Callback
from ..callback._every import LoopState
from ..callback._trainer_protocol import InferenceTower
from ..graph import find_tensors
from ..monitors import Monitor, Monitors
from ._callbacks import Callbacks
from ._step_counter import StepCounter
from ._step_runner import StepRunner

__all__ = ["LoopBase", "PlainLoop", "make_predictor"]


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


@final
class PlainLoop(LoopBase):
    """Moves a variable "weight" towards 1; a scalar tensor "cost" is its squared distance, "costs" a vector.

    It implements all of `TrainerProtocol`: an evaluation runs over any iterable, one step per datapoint.

    Args:
        callbacks: the callbacks, including monitors; they are set up here, and the graph becomes final.
        steps_per_epoch: steps in an epoch.
        max_epoch: the last epoch.
        log_dir: the output directory for callbacks.
    """

    def __init__(
        self, callbacks: Iterable[Callback], steps_per_epoch: int, max_epoch: int, log_dir: Path | None
    ) -> None:
        loop = LoopState(steps_per_epoch=steps_per_epoch, max_epoch=max_epoch)
        flat = Callbacks(callbacks)
        monitors = Monitors([cb for cb in flat if isinstance(cb, Monitor)], loop)
        super().__init__(flat, monitors, loop, log_dir)
        self.coord = tf.train.Coordinator()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._train_op = _straight_line()
            self._counter = StepCounter(self.graph)
            self.callbacks.setup_graph(self)
            self._initialize = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
        self.graph.finalize()

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> _Evaluation:
        """Returns the line itself, evaluated once per datapoint."""
        return _Evaluation(self, source)

    def train(self) -> None:
        """Runs all steps. Even after an error, all `_after_train` run before it is raised."""
        failure: BaseException | None = None
        with self.graph.as_default(), tf.Session(graph=self.graph) as self.sess:
            self.sess.run(self._initialize)
            try:
                self._run_epochs()
            except StopTraining:
                failure = None
            except BaseException as caught:
                failure = self._cause(caught)
            try:
                self.callbacks.after_train()
            except Exception as late:
                if failure is None:
                    raise
                late.__context__ = None
                failure.__context__ = late
        if failure is not None:
            raise failure

    def _cause(self, caught: BaseException) -> BaseException:
        try:
            self.coord.raise_requested_exception()
        except Exception as reported:
            return reported
        return caught

    def _run_epochs(self) -> None:
        loop, callbacks = self.loop, self.callbacks
        steps = StepRunner(self.sess, callbacks, loop, self._counter)
        callbacks.before_train()
        for epoch in range(1, (loop.max_epoch or 0) + 1):
            loop.epoch_num = epoch
            callbacks.before_epoch()
            for local_step in range(loop.steps_per_epoch):
                loop.local_step = local_step
                steps.run(self._train_op)
                callbacks.trigger_step(loop.global_step, loop.epoch_num, loop.is_last_step)
            callbacks.after_epoch()
            callbacks.trigger_epoch()


@final
class _Evaluation:
    """An `InferenceTower` of the line."""

    def __init__(self, owner: PlainLoop, source: Iterable[Any]) -> None:
        self._owner, self._source = owner, source

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        return self._owner.get_tensors(names)

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        for _ in self._source:
            yield self._owner.sess.run(fetches), 1


def _straight_line() -> tf.Operation:
    weight = tf.get_variable("weight", shape=(), initializer=tf.zeros_initializer())
    cost = tf.square(weight - 1.0, name="cost")
    tf.reshape(cost, [1], name="costs")
    return tf.train.GradientDescentOptimizer(0.1).minimize(cost)
