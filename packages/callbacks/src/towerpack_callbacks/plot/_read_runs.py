"""Reads the curves and pictures of runs, and thins long curves."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import attrs
import numpy as np

from ..writing import find_pictures

__all__ = ["Curve", "Picture", "Run", "RunError", "ThinCurve", "read_runs", "select_keys", "smooth", "thin"]


_FILE = "stats.jsonl"
# The keys of each line that are not statistics.
_COUNTERS = {"epoch_num", "global_step", "env_steps"}


class RunError(ValueError):
    """A path contains no run to plot."""


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
    """The recorded statistics of one run.

    Attributes:
        name: a unique name of the run.
        curves: by name of the statistic.
        unreadable: the number of invalid lines; an unfinished last line does not count.
        pictures: steps and pictures of the run, by the name of their series.
    """

    name: str
    curves: dict[str, Curve]
    unreadable: int
    pictures: Mapping[str, Sequence[tuple[int, Picture]]] = attrs.field(factory=dict)


def read_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Reads the runs in log directories or in files of JSON lines, finished or not.

    Raises:
        RunError: a run does not exist or has no statistics yet.
    """
    return [_read_run(Path(path), name) for path, name in zip(paths, _names(paths))]


def _names(paths: Sequence[str | Path]) -> list[str]:
    """Names runs by the last parts of their paths; if these are equal, by whole paths or numbers."""
    short = [Path(path).resolve().name for path in paths]
    counts = Counter(short)
    long = [name if counts[name] == 1 else str(path) for name, path in zip(short, paths)]
    seen: Counter[str] = Counter()
    names = []
    for name in long:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names


def _read_run(path: Path, name: str) -> Run:
    file = path / _FILE if path.is_dir() else path
    if not file.exists():
        what = f"{path} has no {_FILE} (yet)" if path.is_dir() else f"there is no {path}"
        raise RunError(
            f"{what}; expected the log directory of a run with a JSONWriter, or the file it writes"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error}") from error
    lines = content.split(b"\n")
    unfinished = lines.pop()
    run = _parse(lines, name)
    if not run.curves:
        what = f"{run.unreadable} invalid lines" if run.unreadable else "no complete line"
        hint = "; its first line is being written" if unfinished and not run.unreadable else ""
        raise RunError(f"{file} contains no statistics yet: {what}{hint}")
    return attrs.evolve(run, pictures=find_pictures(path)) if path.is_dir() else run


def _parse(lines: Iterable[bytes], name: str) -> Run:
    columns: dict[str, tuple[list[int], list[float]]] = {}
    unreadable = 0
    for line in lines:
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
    return Run(name, {key: _curve(*column) for key, column in columns.items()}, unreadable)


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
