"""Reads the curves and pictures of runs, and thins long curves."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import attrs
import numpy as np

from .._errors import CheckpointError
from ..checkpoint.format import LATEST, STATE, latest_checkpoint, read_json
from ..writing._line_file import ENVIRONMENT, EXPLANATION, LOG, RUN_RECORD, find_pictures
from ._read_record import RunError, RunEvents, RunSegment, read_events, read_record

__all__ = ["Curve", "Picture", "Run", "ThinCurve", "find_runs", "read_runs", "select_keys", "smooth", "thin"]


_FILE = "stats.jsonl"
_LAST_LINES = 500  # of a text file
# The keys of each line that are not statistics.
_COUNTERS = {"epoch_num", "global_step", "env_steps"}


class Picture(Protocol):
    """An encoded picture on the disk: a file or a part of one."""

    def read_bytes(self) -> bytes:
        """Returns the encoded bytes."""


@final
@attrs.frozen(eq=False)  # arrays do not compare to one truth value
class Curve:
    """One statistic of one run.

    Attributes:
        steps: int64 of shape [n], non-decreasing.
        values: float64 of shape [n]; they may be NaN or infinite.
    """

    steps: np.ndarray
    values: np.ndarray


@final
@attrs.frozen(eq=False)
class Run:
    """The files of one run, as far as they can be read.

    Attributes:
        name: a unique name of the run.
        path: its log directory, or its file of statistics.
        curves: by name of the statistic.
        pictures: steps and pictures of the run, by the name of their series.
        segments: the record of its starts.
        hparams: the texts of hyper-parameters, by name.
        checkpoint: the directory of its newest checkpoint; None without one.
        state: the contents of that checkpoint's `state.json`.
        texts: the ends of its text files, by name of the file.
        notes: unreadable files and lines; an unfinished last line does not count.
    """

    name: str
    path: Path
    curves: dict[str, Curve]
    pictures: Mapping[str, Sequence[tuple[int, Picture]]] = attrs.field(factory=dict)
    segments: Sequence[RunSegment] = ()
    hparams: Mapping[str, str] = attrs.field(factory=dict)
    checkpoint: Path | None = None
    state: Mapping[str, Any] = attrs.field(factory=dict)
    texts: Mapping[str, str] = attrs.field(factory=dict)
    notes: Sequence[str] = ()


def read_runs(paths: Sequence[str | Path], missing_ok: bool = False) -> list[Run]:
    """Reads runs that are running, killed or finished.

    Args:
        paths: log directories, directories of them, or files of JSON lines.
        missing_ok: whether runs may start later; their notes then tell what is missing.

    Raises:
        RunError: a path contains no run.
    """
    found = find_runs(paths)
    runs = [_read_run(path, name) for path, name in zip(found, _names(found))]
    for run in runs:
        if not (missing_ok or run.curves or run.pictures or run.segments or run.checkpoint):
            raise RunError("; ".join(run.notes))
    return runs


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the paths, with the runs in a directory in place of one that is no run."""
    found = []
    for path in map(Path, paths):
        is_run = any((path / name).exists() for name in (_FILE, RUN_RECORD, LATEST))
        inside = {file.parent for name in (_FILE, RUN_RECORD) for file in path.glob(f"*/{name}")}
        found += [path] if is_run or not inside else sorted(inside)
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """Names runs by the last parts of their paths; if these are equal, by whole paths or numbers."""
    short = [path.resolve().name for path in paths]
    counts = Counter(short)
    long = [name if counts[name] == 1 else str(path) for name, path in zip(short, paths)]
    seen: Counter[str] = Counter()
    names = []
    for name in long:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names


@contextlib.contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Adds a note about a file that the block cannot read."""
    try:
        yield
    except (RunError, CheckpointError, OSError) as error:
        notes.append(str(error))


def _read_run(path: Path, name: str) -> Run:
    notes: list[str] = []
    curves: dict[str, Curve] = {}
    with _noted(notes):
        curves = _read_curves(path / _FILE if path.is_dir() else path, notes)
    if not path.is_dir():
        if not curves:
            what = f"{path} contains no statistics yet" if path.exists() else f"there is no {path} (yet)"
            notes.append(f"{what}; expected the log directory of a run, or a file of JSON lines")
        return Run(name, path, curves, notes=notes)
    segments: list[RunSegment] = []
    events = RunEvents()
    state: dict[str, Any] = {}
    texts: dict[str, str] = {}
    with _noted(notes):
        segments, unreadable = read_record(path)
        if unreadable:
            notes.append(f"{path / RUN_RECORD}: {unreadable} lines are not events")
    with _noted(notes):
        events = read_events(path)
    pictures = {tag: sorted(images.items()) for tag, images in events.images.items()} | find_pictures(path)
    checkpoint = latest_checkpoint(path)
    if checkpoint is not None:
        with _noted(notes):
            state = read_json(checkpoint / STATE)
    for file in (EXPLANATION, ENVIRONMENT, LOG):
        if (path / file).exists():
            with _noted(notes):
                texts[file] = _read_end(path / file)
    if not (curves or segments or pictures or checkpoint):
        notes.append(
            f"{path} contains no run yet: neither {RUN_RECORD} nor {_FILE} nor a checkpoint; expected the "
            "log directory of a training"
        )
    return Run(name, path, curves, pictures, segments, events.hparams, checkpoint, state, texts, notes)


def _read_end(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    left_out = len(lines) - _LAST_LINES
    first = [f"({left_out} lines before these are in {path})"] if left_out > 0 else []
    return "\n".join([*first, *lines[-_LAST_LINES:]])


def _read_curves(file: Path, notes: list[str]) -> dict[str, Curve]:
    columns: dict[str, tuple[list[int], list[float]]] = {}
    unreadable = 0
    for line in file.read_bytes().split(b"\n")[:-1] if file.exists() else ():
        row = _row(line)
        if row is None:
            unreadable += bool(line.strip())
            continue
        step = row["global_step"]
        for key, value in row.items():
            number = None if key in _COUNTERS else _number(value)
            if number is not None:
                steps, values = columns.setdefault(key, ([], []))
                steps.append(step)
                values.append(number)
    if unreadable:
        notes.append(f"{file}: {unreadable} lines are not statistics")
    return {key: _curve(*column) for key, column in columns.items()}


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        row["global_step"] = int(np.int64(int(row["global_step"])))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return row  # type: ignore[no-any-return]


def _number(value: Any) -> float | None:
    # "NaN", "Infinity" and "-Infinity" are strings, as JSON has no such numbers.
    if isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity"):
        with contextlib.suppress(OverflowError):  # an integer too large for a float
            return float(value)
    return None


def _curve(steps: list[int], values: list[float]) -> Curve:
    step_array, value_array = np.asarray(steps, np.int64), np.asarray(values, np.float64)
    if np.any(np.diff(step_array) < 0):  # manually concatenated files of several runs
        order = np.argsort(step_array, kind="stable")
        step_array, value_array = step_array[order], value_array[order]
    return Curve(step_array, value_array)


def select_keys(runs: Iterable[Run], patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """Returns the sorted names of statistics and pictures of all runs that match a pattern.

    Args:
        runs: the runs.
        patterns: regular expressions; empty: all names are selected.

    Raises:
        RunError: a pattern matches no name.
    """
    known = sorted(
        {key for run in runs for key in (*run.curves, *run.pictures)}, key=lambda key: (key.casefold(), key)
    )
    for pattern in patterns:
        if not any(pattern.search(key) for key in known):
            close = difflib.get_close_matches(pattern.pattern, known, n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else f"; there are: {', '.join(known)}"
            raise RunError(f"no statistic matches {pattern.pattern!r}{hint}")
    return [key for key in known if not patterns or any(pattern.search(key) for pattern in patterns)]


_LARGEST = 1e300


@final
@attrs.frozen(eq=False)  # arrays do not compare to one truth value
class ThinCurve:
    """A curve prepared for drawing.

    Attributes:
        steps: int64 of shape [n], increasing if points were merged.
        values: float64 of shape [n], the mean of the finite values in each interval; NaN without any.
        low, high: float64 of shape [n], the minimum and maximum per interval; None if each value is drawn
            itself.
        odd: pairs (step, "NaN", "Infinity" or "-Infinity"): values that a line cannot show, once per
            interval.
    """

    steps: np.ndarray
    values: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    odd: list[tuple[int, str]]


def thin(curve: Curve, limit: int = 1000) -> ThinCurve:
    """Merges neighbouring points to at most `limit`; a shorter curve is unchanged.

    Values beyond ±1e300 count as infinite, since drawing them would overflow.
    """
    beyond = np.abs(curve.values) > _LARGEST
    curve = Curve(curve.steps, np.where(beyond, np.copysign(np.inf, curve.values), curve.values))
    finite = np.isfinite(curve.values)
    if len(curve.steps) <= limit:
        ends = np.arange(1, len(curve.steps) + 1)
        return ThinCurve(curve.steps, np.where(finite, curve.values, np.nan), None, None, _odd(curve, ends))
    ends = _ends_of_intervals(curve.steps, limit)
    starts = np.concatenate([[0], ends[:-1]])
    count = np.add.reduceat(finite.astype(np.int64), starts)
    total = np.add.reduceat(np.where(finite, curve.values, 0.0), starts)
    low = np.minimum.reduceat(np.where(finite, curve.values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, curve.values, -np.inf), starts)
    return ThinCurve(
        steps=curve.steps[ends - 1],
        values=np.where(count, total / np.maximum(count, 1), np.nan),
        low=np.where(count, low, np.nan),
        high=np.where(count, high, np.nan),
        odd=_odd(curve, ends),
    )


def _ends_of_intervals(steps: np.ndarray, limit: int) -> np.ndarray:
    """Returns the ends of at most `limit` intervals of equal ranges of steps; empty ones are left out."""
    span = steps[-1] - steps[0] + 1
    number = np.minimum(((steps - steps[0]) * (limit / span)).astype(np.int64), limit - 1)
    ends: np.ndarray = np.flatnonzero(np.diff(number, append=limit)) + 1
    return ends


def _odd(curve: Curve, ends: np.ndarray) -> list[tuple[int, str]]:
    kinds = {
        "NaN": np.isnan(curve.values),
        "Infinity": curve.values == np.inf,
        "-Infinity": curve.values == -np.inf,
    }
    found = []
    for kind, is_kind in kinds.items():
        positions = np.flatnonzero(is_kind)
        intervals = np.searchsorted(ends, positions, side="right")
        _, first = np.unique(intervals, return_index=True)
        found += [(int(curve.steps[position]), kind) for position in positions[first]]
    return sorted(found)


def smooth(values: np.ndarray, weight: float) -> np.ndarray:
    """Returns moving averages with the weight `weight`, in [0, 1), for earlier values, without initial bias.

    NaN values stay NaN and do not affect others.
    """
    smoothed = np.full_like(values, np.nan)
    average, share = 0.0, 0.0
    for position in np.flatnonzero(np.isfinite(values)):
        average = average * weight + (1 - weight) * values[position]
        share = share * weight + (1 - weight)
        smoothed[position] = average / share
    return smoothed
