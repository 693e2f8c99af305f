"""The smallest loop for callbacks, which trains a straight line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..callback import Callback, LoopState
from ..monitors import Monitor, Monitors
from ._callbacks import Callbacks
from ._loop_base import LoopBase
from ._step_counter import StepCounter
from ._step_runner import StepRunner

__all__ = ["PlainLoop"]


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
