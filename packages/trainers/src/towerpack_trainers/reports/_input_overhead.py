"""Measures throughput without input time: steps on the data, and steps on one held batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import random_state, set_random_state
from towerpack_inputsource import InputSource, fast_callable

from .._argument_checks import at_least
from .._errors import ConfigError

__all__ = ["InputOverhead", "StepOnHeldBatch"]

_WARM_UP = 5  # steps, for TensorFlow's compilation and allocation


@final
class InputOverhead(NamedTuple):
    """The speed of steps with and without data; as a string, one line for people.

    Attributes:
        steps: the number of timed steps in each case.
        steps_per_second: steps per second with the training's data.
        without_data: steps per second on one held batch.

    Example:
        >>> print(InputOverhead(100, 60.0, 80.0))
        60 steps/s, and 80 if data cost nothing: data takes 25% of the time
    """

    steps: int
    steps_per_second: float
    without_data: float

    @property
    def share(self) -> float:
        """The fraction of a step's time spent on data; 0 if there is no difference."""
        return max(0.0, 1.0 - self.steps_per_second / self.without_data)

    def __str__(self) -> str:
        """Returns a line with both rates and the fraction."""
        return (
            f"{self.steps_per_second:.3g} steps/s, and {self.without_data:.3g} if data cost nothing: "
            f"data takes {self.share:.0%} of the time"
        )


@final
@attrs.frozen(eq=False)
class StepOnHeldBatch:
    """The step of a training that has not begun, and its input.

    Attributes:
        graph: the graph of the training.
        options: the options of its sessions.
        op: runs a step.
        tensors: the input tensors of the towers.
        source: the input.
    """

    graph: tf.Graph
    options: tf.ConfigProto
    op: tf.Operation
    tensors: Sequence[tf.Tensor]
    source: InputSource

    def measure_input_overhead(self, steps: int) -> InputOverhead:
        """Times steps in two separate sessions; all their changes end with them.

        Args:
            steps: the number of steps to time in each.

        Raises:
            ConfigError: `steps` is not a whole number above 0, or the input ends too early, or has no
                position.
            Exception: an error of the data.
        """
        steps = at_least("measure_input_overhead", "steps", steps)
        with self._input_as_it_was(), self._session() as sess, _running(self.source, sess, steps):
            held = self._take(sess)(self.tensors)
            step = self._step(sess)
            _timed(step, _WARM_UP)
            _timed(step, min(steps, _prefetched(self.source)))
            now = _timed(step, steps)
        with self._session() as sess:
            call = fast_callable(sess, [self.op], feeds=self.tensors)
            _timed(lambda: call(*held), _WARM_UP)
            without = _timed(lambda: call(*held), steps)
        return InputOverhead(steps, steps / now, steps / without)

    @contextlib.contextmanager
    def _input_as_it_was(self) -> Iterator[None]:
        position, generators = self.source.state_dict(), random_state()
        if "live" in position:
            raise ConfigError(
                "measure_input_overhead reads data and restores its position afterwards, but a live flow "
                "has no position. Use a trainer with recorded data."
            )
        try:
            yield
        finally:
            self.source.load_state_dict(position)
            set_random_state(generators)

    @contextlib.contextmanager
    def _session(self) -> Iterator[tf.Session]:
        """Makes a session with separate variables; the graph may grow afterwards."""
        with self.graph.as_default(), tf.name_scope(None):
            begin = [
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ]
        with tf.Session(graph=self.graph, config=self.options) as sess:
            sess.run(begin)
            yield sess

    def _step(self, sess: tf.Session) -> Callable[[], Any]:
        if self.source.feed_free:
            return fast_callable(sess, [self.op])
        take = self._take(sess)
        return lambda: take(self.op)

    def _take(self, sess: tf.Session) -> Callable[[Any], Any]:
        """Returns a function that runs fetches together with the hooks of the input, which may feed it."""
        hooks = self.source.hooks()

        def run(fetches: Any) -> Any:
            context = tf.train.SessionRunContext(tf.train.SessionRunArgs(fetches), sess)
            given = [hook.before_run(context) for hook in hooks]
            feeds = {key: value for each in given if each for key, value in (each.feed_dict or {}).items()}
            values = sess.run(fetches, feeds)
            for hook in hooks:
                hook.after_run(context, tf.train.SessionRunValues(None, None, None))
            return values

        return run


@contextlib.contextmanager
def _running(source: InputSource, sess: tf.Session, steps: int) -> Iterator[None]:
    """Runs the threads of an input while inside; raises their errors instead of those of steps."""
    coord, hooks = tf.train.Coordinator(), source.hooks()
    with sess.graph.as_default():
        for hook in hooks:
            hook.begin()
    try:
        for hook in hooks:
            hook.after_create_session(sess, coord)
        yield
    except tf.errors.OpError as error:
        coord.raise_requested_exception()
        if not isinstance(error, tf.errors.OutOfRangeError):
            raise
        raise ConfigError(
            f"The input ended before measure_input_overhead had timed steps={steps}, after warm-up steps "
            "and steps that use up the prefetched datapoints. Use fewer steps, or an input that repeats."
        ) from error
    finally:
        coord.request_stop()
        for hook in hooks:
            hook.end(sess)
        coord.join(stop_grace_period_secs=10, ignore_live_threads=True)


def _prefetched(source: InputSource) -> int:
    """Returns the number of steps with prefetched datapoints, which do not show the speed of the flow."""
    return sum(buffer.fill or 0 for buffer in source.status().buffers)


def _timed(step: Callable[[], Any], steps: int) -> float:
    begin = perf_counter()
    for _ in range(steps):
        step()
    return perf_counter() - begin
