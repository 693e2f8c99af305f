"""Records the time of steps and session calls, if a trace is active."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar, cast, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import LoopState

__all__ = ["timed_calls", "timed_session"]

Result = TypeVar("Result")


def timed_calls(
    loop: LoopState, run_step: Callable[[], None], run_unobserved: Callable[[], int]
) -> tuple[Callable[[], None], Callable[[], int]]:
    """Returns both functions that run steps, wrapped for recording if the loop records.

    Args:
        loop: the counters; after a call they identify the step.
        run_step: runs the next step.
        run_unobserved: runs several steps; returns their number, 0 for none.
    """
    record = loop.record
    if record is None:
        return run_step, run_unobserved

    def timed_step() -> None:
        begin = perf_counter()
        try:
            run_step()
        finally:
            record(f"step {loop.global_step}", "step", begin, perf_counter())

    def timed_unobserved() -> int:
        begin, before = perf_counter(), loop.global_step
        done = run_unobserved()
        if done:
            record(f"steps {before + 1} to {loop.global_step}", "step", begin, perf_counter())
        return done

    return timed_step, timed_unobserved


def timed_session(sess: tf.Session, loop: LoopState) -> tf.Session:
    """Returns a session that records its calls if the loop records; otherwise the session itself."""
    return sess if loop.record is None else cast(tf.Session, _TimedSession(sess, loop.record))


@final
class _TimedSession:
    """A session that records the time of each call, including calls of its callables."""

    def __init__(self, sess: tf.Session, record: Callable[[str, str, float, float], None]) -> None:
        self._timed_sess = sess
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timed_sess, name)

    def run(self, *arguments: Any, **named: Any) -> Any:
        return self._timed(self._timed_sess.run)(*arguments, **named)

    def make_callable(self, *arguments: Any, **named: Any) -> Callable[..., Any]:
        return self._timed(self._timed_sess.make_callable(*arguments, **named))

    def _make_callable_from_options(self, options: Any) -> Callable[..., Any]:
        return self._timed(self._timed_sess._make_callable_from_options(options))

    def _timed(self, call: Callable[..., Result]) -> Callable[..., Result]:
        record = self._record

        def timed(*arguments: Any, **named: Any) -> Result:
            begin = perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                record("session call", "session", begin, perf_counter())

        return timed
