"""Reads the record of a run: its parts, the use of its time, and its event files."""

from __future__ import annotations

import itertools
import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs

from ..writing._line_file import RUN_RECORD, RUN_RECORD_FORMAT
from ..writing._protobuf_fields import Span, read_fields

__all__ = [
    "EmbeddedImage",
    "Event",
    "Goodput",
    "RunError",
    "RunEvents",
    "RunInterval",
    "RunSegment",
    "measure_goodput",
    "read_events",
    "read_record",
]


class RunError(ValueError):
    """A path contains no run to plot."""


@final
@attrs.frozen
class Event:
    """A recorded event of a run.

    Attributes:
        time: seconds since 1970.
        epoch: the running epoch, from 1.
        step: finished steps.
        spent: seconds since the start of the process's training, by use.
    """

    time: float
    epoch: int
    step: int
    spent: Mapping[str, float] = attrs.field(factory=dict)


@final
@attrs.frozen
class RunSegment:
    """The record of one process, from its start to its end or until it was killed.

    Attributes:
        events: the events in order; the first one is the start.
        ended: whether the training ended, also by an error; otherwise it is running or was killed.
        facts: other data of the start: command, working directory, host, process, last epoch.
        reason: the reason of the end; empty after all epochs, or if it did not end.
        traceback: the traceback of the error that ended it; empty without an error.
    """

    events: tuple[Event, ...]
    ended: bool
    facts: Mapping[str, Any]
    reason: str = ""
    traceback: str = ""


def read_record(log_dir: Path) -> tuple[list[RunSegment], int]:
    """Reads `run.jsonl`; without one, there are no segments.

    Returns:
        The segments in order, and the number of invalid lines. An unfinished last line does not count.

    Raises:
        RunError: the file cannot be read, or has a later format.
    """
    path = log_dir / RUN_RECORD
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    runs: list[list[dict[str, Any]]] = []
    unreadable = 0
    for line in lines[:-1]:
        row = _row(line)
        if row is not None and row["event"] == "start":
            _check_format(path, row)
            runs.append([row])
        elif row is not None and runs:
            runs[-1].append(row)
        else:
            unreadable += 1
    return [_segment(rows) for rows in runs], unreadable


def _segment(rows: list[dict[str, Any]]) -> RunSegment:
    end = rows[-1] if rows[-1]["event"] == "end" else None
    reason, traceback = ("" if end is None else str(end.get(key, "")) for key in ("reason", "traceback"))
    return RunSegment(tuple(map(_event, rows)), end is not None, rows[0], reason, traceback)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        _event(row)
        return row if isinstance(row["event"], str) else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _event(row: Mapping[str, Any]) -> Event:
    spent = {str(name): float(seconds) for name, seconds in row.get("spent", {}).items()}
    time = float(row["time"])
    if not all(map(math.isfinite, (time, *spent.values()))):
        raise ValueError("a time that is not finite")
    return Event(time, int(row["epoch"]), int(row["step"]), spent)


def _check_format(path: Path, row: Mapping[str, Any]) -> None:
    if row.get("format") != RUN_RECORD_FORMAT:
        raise RunError(
            f"{path} has format {row.get('format')!r:.40}; this version reads format {RUN_RECORD_FORMAT}. "
            "Make the report with the release of towerpack-callbacks that wrote it."
        )


@final
@attrs.frozen
class RunInterval:
    """The contribution of one process.

    Attributes:
        start, end: times of its first and last event in the record, in seconds since 1970.
        first_step, last_step: finished steps at these times.
        kept_step: the step from which the run was or would be resumed; later steps are lost.
        ended: whether the training ended; otherwise it is running or was killed.
        reason: the reason of the end; empty after all epochs, or if it did not end.
        training, waiting, saving, lost: seconds; they add up to `end - start`.
    """

    start: float
    end: float
    first_step: int
    last_step: int
    kept_step: int
    ended: bool
    reason: str
    training: float
    waiting: float
    saving: float
    lost: float


@final
@attrs.frozen
class Goodput:
    """The use of time of a run, in seconds.

    Attributes:
        intervals: one for each start.
        restarting: seconds from the last event of one process to the first step of the next.
    """

    intervals: tuple[RunInterval, ...]
    restarting: float

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by use; they add up to the time from the first start to the last event."""
        parts = {
            name: sum(getattr(interval, name) for interval in self.intervals)
            for name in ("training", "waiting", "saving")
        }
        return {
            "training": parts["training"],
            "waiting for data": parts["waiting"],
            "saving": parts["saving"],
            "restarting": self.restarting,
            "lost since a checkpoint": sum(interval.lost for interval in self.intervals),
        }

    @property
    def share(self) -> float:
        """The fraction of the time spent on training, in [0, 1]."""
        total = sum(self.seconds.values())
        return self.seconds["training"] / total if total else 0.0


def measure_goodput(segments: Sequence[RunSegment], saved_step: int | None) -> Goodput:
    """Adds up the time of a run.

    Args:
        segments: the record of the run, in order.
        saved_step: the step of the newest checkpoint, from which a killed run would resume; None without
            checkpoints. A last segment that has ended loses no steps.
    """
    resumed = [segment.events[0].step for segment in segments[1:]]
    last = None if segments and segments[-1].ended else (saved_step or 0)
    intervals = tuple(_run_interval(segment, kept) for segment, kept in zip(segments, [*resumed, last]))
    gaps = itertools.pairwise(intervals)
    # Clocks may differ between hosts, or may have been set.
    return Goodput(intervals, sum(max(0.0, after.start - before.end) for before, after in gaps))


def _run_interval(segment: RunSegment, kept_step: int | None) -> RunInterval:
    events = segment.events
    start, last = events[0], max(events, key=lambda event: event.time)
    kept = last.step if kept_step is None else min(max(kept_step, start.step), last.step)
    reached = next((event for event in events if event.step >= kept), last)
    # Without later steps, the time up to the last event counts: the end of the training and its last
    # checkpoint.
    counted = last if kept == last.step else reached
    spent = counted.spent
    until = max(counted.time, start.time)  # the clock may have been set back
    span = until - start.time
    waiting = min(span, max(0.0, spent.get("wait", 0.0)))
    saving = min(span - waiting, max(0.0, spent.get("save", 0.0)))
    return RunInterval(
        start=start.time,
        end=last.time,
        first_step=start.step,
        last_step=last.step,
        kept_step=kept,
        ended=segment.ended,
        reason=segment.reason,
        training=span - waiting - saving,
        waiting=waiting,
        saving=saving,
        lost=last.time - until,
    )


# Numbers of fields, and paths of them.
_STEP, _SUMMARY, _SESSION_LOG = 2, 5, 7  # of an Event
_VALUE, _TAG, _IMAGE = 1, 1, (4, 4)  # of a Summary and its values: the encoded bytes of an image
_HPARAMS_TAG = "_hparams_/session_start_info"
_HPARAM = (9, 1, 2, 3, 1)  # metadata, plugin, its content, the start of the session, a name with its value
_NUMBER = 2  # of a protobuf.Value


@final
@attrs.frozen
class EmbeddedImage:
    """An encoded image within a file.

    Attributes:
        path: the file.
        offset, size: position and size of the image, in bytes.
    """

    path: Path
    offset: int
    size: int

    def read_bytes(self) -> bytes:
        """Returns the encoded image."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@final
@attrs.frozen
class RunEvents:
    """The contents of a run's event files that a page shows.

    Attributes:
        images: images by step, by tag.
        hparams: the texts of hyper-parameters, by name.
    """

    images: dict[str, dict[int, EmbeddedImage]] = attrs.field(factory=dict)
    hparams: dict[str, str] = attrs.field(factory=dict)


def read_events(log_dir: Path) -> RunEvents:
    """Reads the event files in a directory.

    Images that an interrupted run wrote after the checkpoint of its resume are left out. Reading a file stops
    at its first damaged record.

    Raises:
        RunError: a file cannot be read.
    """
    events = RunEvents()
    for path in sorted(filter(Path.is_file, log_dir.glob("events.out.tfevents.*"))):
        try:
            _read(path, events)
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error}") from error
    return events


def _read(path: Path, events: RunEvents) -> None:
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for record in _records(content):
            try:
                _take(path, content, record, events)
            except (ValueError, struct.error):  # damaged, as are the following records
                return


def _records(content: mmap.mmap) -> Iterator[Span]:
    start = 0
    while start + 16 <= len(content):
        (size,) = struct.unpack_from("<Q", content, start)
        begin, end = start + 12, start + 12 + size
        if end + 4 > len(content):
            return
        yield begin, end
        start = end + 4


def _take(path: Path, content: mmap.mmap, event: Span, events: RunEvents) -> None:
    fields = list(read_fields(content, event))
    step = next((value for number, value in fields if number == _STEP and isinstance(value, int)), 0)
    if any(number == _SESSION_LOG for number, _ in fields):
        for images in events.images.values():  # a resumed run: earlier images of these steps are void
            for later in [old for old in images if old >= step]:
                del images[later]
    for value in _inside(content, event, _SUMMARY, _VALUE):
        for tag in (_text(content, span) for span in _inside(content, value, _TAG)):
            for start, end in _inside(content, value, *_IMAGE):
                events.images.setdefault(tag, {})[step] = EmbeddedImage(path, start, end - start)
            for entry in _inside(content, value, *_HPARAM) if tag == _HPARAMS_TAG else ():
                events.hparams.update(_hparam(content, entry))


def _hparam(content: mmap.mmap, entry: Span) -> Iterator[tuple[str, str]]:
    """Yields name and value of a hyper-parameter: a number, a text or a truth value."""
    for name in _inside(content, entry, 1):
        for span in _inside(content, entry, 2):
            for number, value in read_fields(content, span):
                if isinstance(value, int):
                    yield _text(content, name), str(bool(value))
                elif number == _NUMBER:
                    yield _text(content, name), f"{struct.unpack_from('<d', content, value[0])[0]:.7g}"
                else:
                    yield _text(content, name), _text(content, value)


def _text(content: mmap.mmap, span: Span) -> str:
    return content[slice(*span)].decode("utf-8", "replace")


def _inside(content: mmap.mmap, span: Span, *numbers: int) -> Iterator[Span]:
    """Yields the parts at a path of nested fields."""
    for number, value in read_fields(content, span):
        if number == numbers[0] and not isinstance(value, int):
            yield from _inside(content, value, *numbers[1:]) if numbers[1:] else [value]
