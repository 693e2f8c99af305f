"""One job at a time, on a thread beside the training. Knows neither TensorFlow nor files."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["BackgroundJob"]


class BackgroundJob:
    """Runs jobs beside the thread that hands them over, at most one at a time.

    Args:
        name: of the thread.
        on_failure: called on that thread with what a job raised, at once.
    """

    def __init__(self, name: str, on_failure: Callable[[Exception], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Starts a job; first waits for the one before, and raises what that raised."""
        self.wait()
        # No daemon: an interpreter that ends waits for it, so that what was begun is finished.
        self._thread = threading.Thread(target=self._run, args=(job,), name=self._name)
        self._thread.start()

    def wait(self) -> None:
        """Waits for the running job, if any, and raises what it raised; a second time there is nothing."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as failure:
            self._failure = failure
            self._on_failure(failure)
