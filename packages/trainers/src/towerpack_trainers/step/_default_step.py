"""The step that nearly all steps are, made to cost as little as TensorFlow allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_callbacks import StepCounter, StepFetch
from towerpack_inputsource import fast_callable

from ._fused_steps import IdleSteps
from ._step_copies import StepCopies

__all__ = ["PlainStep"]


class PlainStep:
    """The step without anything periodic: by far the most frequent one, so counted within the same call.

    Create it while the graph can still be changed.

    Args:
        train_op: what `run_step` runs.
        fetches: what callbacks want at every step; of several steps in one run, of the last.
        counter: the step counter.
        times: how many steps one run makes.

    Raises:
        ConfigError: several steps are wanted of an op that needs something fed.
    """

    def __init__(
        self, train_op: tf.Operation, fetches: Sequence[StepFetch], counter: StepCounter, times: int = 1
    ) -> None:
        self.train_op = train_op
        self.times = times
        received = [fetch for fetch in fetches if fetch.receive is not None]
        self.receivers = [fetch.receive for fetch in received if fetch.receive is not None]
        self._values = [fetch.fetches for fetch in received]
        wanted = tf.nest.flatten([train_op, [fetch.fetches for fetch in fetches]])
        self._done = tf.group(*wanted) if counter.counted_by_graph else counter.count_after(wanted)
        self._ahead: tf.Operation | None = None
        if times > 1:
            self._repeat()

    def _repeat(self) -> None:
        """Puts all steps but the last into a loop, and lets the last one follow it."""
        step = tf.nest.map_structure(_as_output, [self._done, self._values])
        outputs = {output.name: output for output in tf.nest.flatten(step)}
        copies = StepCopies(list(outputs.values()))
        self._ahead = copies.loop(lambda done: done < self.times - 1, "steps_ahead").op
        last = dict(zip(outputs, copies.after(self._ahead, "last_step")))
        self._done, self._values = tf.nest.map_structure(lambda output: last[output.name], step)

    def idle_steps(self, times: int) -> IdleSteps | None:
        """The step in a loop, for when nobody looks at it; see `IdleSteps.of`."""
        return IdleSteps.of(self._done, times)

    def compile(self, sess: tf.Session) -> Callable[[], Sequence[Any]]:
        """A function that runs the step and returns one value per receiver."""
        if not self._values:
            return fast_callable(sess, [self._done])
        if self._all_want_one_tensor():
            # A bare tensor comes back in a third of the time that a structure around it takes.
            run, count = fast_callable(sess, [self._done], fetches=self._values[:1]), len(self._values)
            return lambda: run() * count
        run_all = sess.make_callable([self._done, self._values])
        return lambda: run_all()[1]

    def _all_want_one_tensor(self) -> bool:
        return len({id(value) for value in self._values}) == 1 and tf.is_tensor(self._values[0])

    def compile_ahead(self, sess: tf.Session) -> Callable[[], Any] | None:
        """A function that runs all steps of a run but the last; None if there are none."""
        return None if self._ahead is None else sess.make_callable(self._ahead)


def _as_output(fetch: Any) -> tf.Operation | tf.Tensor:
    return fetch if isinstance(fetch, tf.Operation) else tf.convert_to_tensor(fetch)
