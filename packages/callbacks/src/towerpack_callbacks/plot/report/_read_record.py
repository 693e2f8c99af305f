"""Reads the record of a run: its starts, progress and ends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import attrs

from ...writing import RUN_RECORD, RUN_RECORD_FORMAT
from .._read_runs import RunError

__all__ = ["Event", "Segment", "read_record"]


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
class Segment:
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


def read_record(log_dir: Path) -> tuple[list[Segment], int]:
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


def _segment(rows: list[dict[str, Any]]) -> Segment:
    end = rows[-1] if rows[-1]["event"] == "end" else None
    reason, traceback = ("" if end is None else str(end.get(key, "")) for key in ("reason", "traceback"))
    return Segment(tuple(map(_event, rows)), end is not None, rows[0], reason, traceback)


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
