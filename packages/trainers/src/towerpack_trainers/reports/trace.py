"""Traces of trainings: spans of time on a clock shared by all processes of a machine, and trace files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, TypeVar, cast, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import LoopState
from towerpack_callbacks.writing import atomic_write

from .._errors import ConfigError, TraceError

__all__ = [
    "TrainingTrace",
    "clock_of_this_machine",
    "merge_traces",
    "read_trace",
    "timed_calls",
    "timed_session",
    "write_trace",
]

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


_CLOCK = ("clock", "host", "boot_id")


def clock_of_this_machine() -> dict[str, str]:
    """Returns the description of this machine's clock: `CLOCK_MONOTONIC` begins with a boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return dict(zip(_CLOCK, ("CLOCK_MONOTONIC", platform.node(), boot)))


def read_trace(path: Path) -> dict[str, Any]:
    """Reads a trace.

    Raises:
        TraceError: the file was not written by this library.
        OSError: the file cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TraceError(f"{path} is not a trace: it is not JSON ({error}).") from error
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise TraceError(f"{path} is not a trace: it has no list of traceEvents.")
    other = found.get("otherData")
    if not isinstance(other, dict) or not all(isinstance(other.get(name), str) for name in _CLOCK):
        raise TraceError(
            f"{path} does not describe its clock. Use traces written by TrainConfig(trace=...) or "
            "`python -m towerpack_dataflow bench --trace`."
        )
    return found


def merge_traces(paths: Sequence[Path]) -> dict[str, Any]:
    """Merges traces of one machine; their times already use the same clock.

    Args:
        paths: the paths of the traces.

    Returns:
        The trace, with all their events.

    Raises:
        TraceError: a file is not a trace, or the traces have different hosts, boots or clocks.
        OSError: a file cannot be read.
    """
    traces = [read_trace(path) for path in paths]
    first = traces[0]["otherData"]
    for path, trace in zip(paths, traces):
        for name, found in ((name, trace["otherData"][name]) for name in _CLOCK):
            if found != first[name]:
                raise TraceError(
                    f"{path} has the {name} {found!r}, but {paths[0]} has {first[name]!r}: their times "
                    "cannot be compared. Merge traces of one host since its last boot."
                )
    events = [event for trace in traces for event in trace["traceEvents"]]
    return {"traceEvents": events, "otherData": {name: first[name] for name in _CLOCK}}


def write_trace(path: Path, trace: dict[str, Any]) -> None:
    """Writes a trace, completely or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_write(path) as aside, aside.open("w", encoding="utf-8") as file:
        json.dump({**trace, "displayTimeUnit": "ms"}, file)


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
