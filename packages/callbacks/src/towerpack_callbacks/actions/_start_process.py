"""Starts a thread or process with the training, and stops it in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..callback import Callback

__all__ = ["StartProcOrThread"]


@final
class StartProcOrThread(Callback):
    """Starts threads or processes before the training, and stops them after it.

    They are started with the session there, but TensorFlow's default session and graph belong to the thread
    they were entered in: a thread that needs them is given `trainer.sess`.

    Args:
        startable: a `threading.Thread`, a `multiprocessing.Process`, anything with `start()`, or a list of
            such.
        stop_at_last: stop them after the training, in order: by their `stop()` if they have one, else by
            `terminate()`; then wait for them. Where they have neither, they must end by themselves, and are
            waited for.

    Raises:
        TypeError: one cannot be started.
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
