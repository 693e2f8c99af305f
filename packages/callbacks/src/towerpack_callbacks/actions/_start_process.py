"""Starts a thread or process with the training, and stops it at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..callback import Callback

__all__ = ["StartProcOrThread"]


@final
class StartProcOrThread(Callback):
    """Starts threads or processes before the training, and stops them after it.

    They start after the session is created. TensorFlow's default session and graph belong to the thread that
    entered them: pass `trainer.sess` to a thread that needs them.

    Args:
        startable: a `threading.Thread`, a `multiprocessing.Process`, any object with `start()`, or a list of
            these.
        stop_at_last: stop them after the training, in order, by `stop()` or else `terminate()`; then wait for
            them. Objects that have neither must end by themselves; the callback waits for them.

    Raises:
        TypeError: an object has no `start()`.
    """

    chief_only = False

    def __init__(self, startable: Any, stop_at_last: bool = True) -> None:
        self._startables: Sequence[Any] = startable if isinstance(startable, (list, tuple)) else [startable]
        for one in self._startables:
            if not callable(getattr(one, "start", None)):
                raise TypeError(f"StartProcOrThread takes objects with a start() method, received {one!r}.")
        self._stop_at_last = stop_at_last
        self._started: list[Any] = []

    def _before_train(self) -> None:
        for one in self._startables:
            one.start()
            self._started.append(one)

    def _after_train(self) -> None:
        started, self._started = self._started, []
        if not self._stop_at_last:
            return
        for one in started:
            stop = getattr(one, "stop", None) or getattr(one, "terminate", None)
            if stop is not None:
                stop()
        for one in started:
            if hasattr(one, "join"):
                one.join()
