"""The time spans of one process, written to the directory of the trace.

The environment variable `TOWERPACK_TRACE` names a directory during a trace. Each process appends its events
to a separate file there, one per line, in the trace event format of Chrome and Perfetto. So a killed process
leaves all spans written so far, and the code that collects the trace depends only on the name of the
directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from time import monotonic, thread_time
from typing import Any, Protocol, final

__all__ = [
    "NO_SPANS",
    "TRACE_VARIABLE",
    "Spans",
    "follow_trace",
    "process_spans",
    "trace_directory",
]

TRACE_VARIABLE = "TOWERPACK_TRACE"
_MOST_SPANS = 100_000  # per process, about 15 MB
_NO_MORE = f"no further spans of this process: limit of {_MOST_SPANS:,} reached"
_MOST_HELD = 64  # spans waiting to be written; a task, or a wait, has fewer


class Spans(Protocol):
    """Records the spans of this process."""

    def add(self, name: str, category: str, begin: float, **details: Any) -> None:
        """Adds a span of the calling thread that ends at the time of the call.

        Args:
            name: the activity.
            category: "produce", "map", "collate", "copy" or "wait", or another word.
            begin: start time, in seconds of `time.monotonic()`; on Linux, `perf_counter` is that clock.
            details: shown with the span; JSON values.
        """

    def span(self, name: str, category: str, **details: Any) -> AbstractContextManager[None]:
        """Adds a span around a `with` block, with the milliseconds of processor time in it."""

    def flush(self) -> None:
        """Writes all added spans."""


@final
class _NoSpans:
    """Discards all spans: no trace is made."""

    def add(self, name: str, category: str, begin: float, **details: Any) -> None:
        """Does nothing."""

    def span(self, name: str, category: str, **details: Any) -> AbstractContextManager[None]:
        """Returns a context that does nothing."""
        return _NOTHING

    def flush(self) -> None:
        """Does nothing."""


_NOTHING: AbstractContextManager[None] = nullcontext()
NO_SPANS: Spans = _NoSpans()


@final
class _SpanWriter:
    """Appends the spans of this process to a separate file.

    Args:
        directory: directory for the file.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.pid = os.getpid()
        path = os.path.join(directory, f"{self.pid}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        weakref.finalize(self, os.close, self._file)
        self._lock = threading.Lock()
        self._threads: set[int] = set()
        self._held: list[dict[str, Any]] = [self._about("process_name", 0, name=_TracedProcess.name)]
        self._left = _MOST_SPANS

    def add(self, name: str, category: str, begin: float, **details: Any) -> None:
        start, end = round(begin * 1e6, 3), round(monotonic() * 1e6, 3)
        thread = threading.get_native_id()
        span = {"name": name, "cat": category, "ph": "X", "ts": start, "dur": round(end - start, 3)}
        with self._lock:
            self._left -= 1
            if self._left < 0:
                return
            if thread not in self._threads:
                self._threads.add(thread)
                self._held.append(self._about("thread_name", thread, name=threading.current_thread().name))
            self._held.append({**span, "pid": self.pid, "tid": thread, "args": details})
            if self._left == 0:
                self._held.append({**self._about(_NO_MORE, thread), "ph": "i", "s": "p", "ts": end})
            if self._left == 0 or len(self._held) > _MOST_HELD:
                self._write()

    @contextlib.contextmanager
    def span(self, name: str, category: str, **details: Any) -> Iterator[None]:
        begin, computed = monotonic(), thread_time()
        try:
            yield
        finally:
            self.add(name, category, begin, **details, cpu_ms=round(1e3 * (thread_time() - computed), 3))

    def flush(self) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        held, self._held = self._held, []
        if held:
            os.write(self._file, "".join(json.dumps(event) + "\n" for event in held).encode())

    def _about(self, kind: str, thread: int, **what: Any) -> dict[str, Any]:
        return {"name": kind, "ph": "M", "ts": 0, "pid": self.pid, "tid": thread, "args": what}


@final
class _TracedProcess:
    """The name of this process in a trace, and its writer, if any."""

    lock = threading.Lock()
    name = "consumer"
    writer: _SpanWriter | None = None


def trace_directory() -> str:
    """Returns the directory for the spans of a trace; empty if no trace is made."""
    return os.environ.get(TRACE_VARIABLE, "")


def follow_trace(directory: str, name: str) -> None:
    """Makes this process and its children write spans to `directory`, or none if `directory` is empty.

    A worker calls it with the directory from a pass, so that running workers take part in a trace.

    Args:
        directory: directory for the spans.
        name: name of this process in the trace.
    """
    _TracedProcess.name = name
    if directory:
        os.environ[TRACE_VARIABLE] = directory
    else:
        os.environ.pop(TRACE_VARIABLE, None)


def process_spans(directory: str | None = None) -> Spans:
    """Returns the recorder of this process's spans; it discards them while no trace is made.

    Args:
        directory: directory of the trace; by default, the value of `TOWERPACK_TRACE`.

    Example:
        >>> def decode(datapoint):
        ...     with process_spans().span("decode", "map"):
        ...         return datapoint
        >>> decode(1)
        1
    """
    directory = trace_directory() if directory is None else directory
    if not directory:
        return NO_SPANS
    with _TracedProcess.lock:
        writer = _TracedProcess.writer
        if writer is None or writer.pid != os.getpid() or writer.directory != directory:
            try:
                writer = _TracedProcess.writer = _SpanWriter(directory)
            except FileNotFoundError:  # the trace is complete: this is a late worker
                return NO_SPANS
        return writer
