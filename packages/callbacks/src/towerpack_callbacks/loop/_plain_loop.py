"""The smallest loop that callbacks run in: a straight line to train, and one door to leave by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..callback._callback import Callback
from ..callback._loop_state import LoopState
from ..graph._find_tensors import find_tensors
from ..monitors import Monitor, Monitors
from ._callbacks import Callbacks
from ._predictor import make_predictor
from ._step_counter import StepCounter

__all__ = ["PlainLoop"]


class PlainLoop:
    """Moves a variable "weight" towards 1; a scalar tensor "cost" is its squared distance, "costs" a vector.

    It keeps `TrainerProtocol` in full: an evaluation runs over any iterable, one step of it per datapoint.

    Args:
        callbacks: the callbacks, monitors among them; they are set up, and the graph is final then.
        steps_per_epoch: steps in an epoch.
        max_epoch: the last epoch.
        log_dir: where callbacks may write.
    """

    is_chief = True

    def __init__(
        self, callbacks: Iterable[Callback], steps_per_epoch: int, max_epoch: int, log_dir: Path | None
    ) -> None:
        self.loop = LoopState(steps_per_epoch=steps_per_epoch, max_epoch=max_epoch)
        self.log_dir = log_dir
        self.callbacks = Callbacks(callbacks)
        self.monitors = Monitors([cb for cb in self.callbacks if isinstance(cb, Monitor)], self.loop)
        self.coord = tf.train.Coordinator()
        self.graph = tf.Graph()
        self.sess: tf.Session = None
        with self.graph.as_default():
            self._train_op = _straight_line()
            self._counter = StepCounter(self.graph)
            self.callbacks.setup_graph(self)
            self._initialize = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
        self.graph.finalize()

    # ---- what callbacks see

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Tensors by name."""
        return find_tensors(self.graph, names)

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """A function from input arrays to output arrays."""
        feeds, fetches = self.get_tensors(input_names), self.get_tensors(output_names)
        return make_predictor(lambda: self.sess, feeds, fetches)

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> _Evaluation:
        """The line itself, evaluated once per datapoint."""
        return _Evaluation(self, source)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds besides variables."""
        return {"loop": self.loop.state_dict(), "callbacks": self.callbacks.state_dict()}

    # ---- the loop

    def train(self) -> None:
        """Runs all steps. Whatever happens, all `_after_train` run before anything is raised."""
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
        callbacks.before_train()
        for epoch in range(1, (loop.max_epoch or 0) + 1):
            loop.epoch_num = epoch
            callbacks.before_epoch()
            for local_step in range(loop.steps_per_epoch):
                loop.local_step = local_step
                self._run_step()
                callbacks.trigger_step(loop.global_step, loop.epoch_num, loop.is_last_step)
            callbacks.after_epoch()
            callbacks.trigger_epoch()

    def _run_step(self) -> None:
        loop, callbacks = self.loop, self.callbacks
        due = callbacks.due_fetches(loop.global_step + 1, loop.epoch_num, loop.is_last_step)
        context = tf.train.SessionRunContext(tf.train.SessionRunArgs(self._train_op), self.sess)
        args = callbacks.before_run(context)
        feeds = {tensor: value for arg in args for tensor, value in (arg.feed_dict or {}).items()}
        fetches = {
            "step": self._train_op,
            "due": [fetch.fetches for fetch in due],
            "args": [[] if arg.fetches is None else arg.fetches for arg in args],
        }
        options = callbacks.run_options(due, args)
        metadata = None if options is None else tf.RunMetadata()
        values = self.sess.run(fetches, feeds, options, metadata)
        self.sess.run(self._counter.count)
        loop.global_step += 1
        callbacks.receive(due, values["due"], metadata)
        callbacks.after_run(
            context, [tf.train.SessionRunValues(value, options, metadata) for value in values["args"]]
        )


class _Evaluation:
    """Keeps `InferenceTower`."""

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
