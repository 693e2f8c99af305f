"""The trace of one process of a training, from its first preparations to its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, final

from towerpack_callbacks import LoopState

from ..._errors import ConfigError
from ._trace_files import clock_of_this_machine, write_trace

__all__ = ["TrainingTrace"]

# The directory in which flows and their workers write spans, one file per process, with one event of the
# trace event format on each line. This wheel depends on dataflow's traces only through this convention.
_VARIABLE = "TOWERPACK_TRACE"
_MOST_SPANS = 100_000  # about 20 MB of memory, and of the file


@final
class TrainingTrace:
    """Records the time of a run. Enter it before the run; when the block ends, the file is written.

    Only the first 100,000 spans are kept, and an event marks their end. Each worker of a flow has the same
    limit.

    Args:
        path: the path of the file; None for none, which costs nothing.
        loop: receives the recording function, for all its users.
        rank: the rank of the process, which becomes part of the file's name; None for a single process.
    """

    def __init__(self, path: Path | None, loop: LoopState, rank: int | None = None) -> None:
        named = path is not None and rank is not None
        self.path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}") if path and named else path
        self._loop = loop
        self._name = "training" if rank is None else f"training, rank {rank}"
        self._spans: deque[tuple[str, str, float, float, int]] = deque()
        self._threads: dict[int, str] = {}
        self._left = _MOST_SPANS
        self._directory: str | None = None
        self._before: str | None = None

    def __enter__(self) -> TrainingTrace:
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._directory = tempfile.mkdtemp(prefix=f".{self.path.name}-", dir=self.path.parent)
            except OSError as error:
                raise ConfigError(
                    f"trace={str(self.path)!r} cannot be written: {error}. Choose another file."
                ) from error
            self._before = os.environ.get(_VARIABLE)
            os.environ[_VARIABLE] = os.path.abspath(self._directory)
            self._loop.record = self.add
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.path is None or self._directory is None:
            return
        self._loop.record = None
        os.environ.pop(_VARIABLE, None)
        if self._before is not None:
            os.environ[_VARIABLE] = self._before
        directory, self._directory = self._directory, None
        try:
            events = [*_events_in(Path(directory)), *self._events()]
            write_trace(self.path, {"traceEvents": events, "otherData": clock_of_this_machine()})
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def add(self, name: str, category: str, begin: float, end: float) -> None:
        """Adds a span of the calling thread.

        Args:
            name: the name of the activity.
            category: "step", "session", "callback", "checkpoint" or "wait".
            begin: the begin, in seconds of `time.perf_counter()`, which is `CLOCK_MONOTONIC` on Linux.
            end: the end, likewise.
        """
        self._left -= 1
        if self._left < 0:
            return
        thread = threading.get_native_id()
        if thread not in self._threads:
            self._threads[thread] = threading.current_thread().name
        self._spans.append((name, category, begin, end, thread))

    def _events(self) -> Iterator[dict[str, Any]]:
        here = {"pid": os.getpid()}
        yield {"name": "process_name", "ph": "M", "ts": 0, **here, "tid": 0, "args": {"name": self._name}}
        for thread, name in self._threads.items():
            yield {"name": "thread_name", "ph": "M", "ts": 0, **here, "tid": thread, "args": {"name": name}}
        end = 0.0
        for what, category, begin, end, thread in self._spans:
            start = round(begin * 1e6, 3)
            lasted = round(round(end * 1e6, 3) - start, 3)
            span = {"name": what, "cat": category, "ph": "X", "ts": start, "dur": lasted}
            yield {**span, **here, "tid": thread, "args": {}}
        if self._left < 0:
            text = f"{-self._left:,} more spans of the training were omitted from here on"
            yield {"name": text, "ph": "i", "s": "p", "ts": round(end * 1e6, 3), **here, "tid": 0}


def _events_in(directory: Path) -> Iterator[dict[str, Any]]:
    """Yields the events of flows and workers; the last line of a killed process may be incomplete."""
    for file in sorted(directory.glob("*.jsonl")):
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.endswith("\n"):
                    with contextlib.suppress(ValueError):
                        yield json.loads(line)
