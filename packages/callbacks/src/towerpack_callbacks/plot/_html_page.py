"""Writes curves to one page that needs nothing else: no network, no library."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..writing import atomic_write
from ._chart_style import DASHES, THEMES, Appearance
from ._read_runs import Run
from ._thin_curves import ThinCurve, thin

__all__ = ["write_html"]

_DATA = "/*DATA*/null"


def write_html(runs: Sequence[Run], keys: Sequence[str], path: Path, look: Appearance) -> None:
    """Writes a page with one chart for each statistic; hovering, smoothing and scale are in the page.

    Args:
        runs: the runs.
        keys: names of the statistics, in the order of their charts.
        path: the file to write; it is replaced when the page is complete.
        look: the options with which the page starts.
    """
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    page = template.replace(_DATA, _embed(_content(runs, keys, look)))
    with atomic_write(path) as aside:
        aside.write_text(page, encoding="utf-8", errors="replace")


def _content(runs: Sequence[Run], keys: Sequence[str], look: Appearance) -> dict[str, Any]:
    return {
        "keys": list(keys),
        "runs": [
            {
                "name": run.name,
                "curves": {key: _points(thin(run.curves[key])) for key in keys if key in run.curves},
            }
            for run in runs
        ],
        "colours": {name: theme.runs for name, theme in THEMES.items()},
        "dashes": [" ".join(map(str, dashes)) for dashes in DASHES],
        "look": {"theme": look.theme, "log": look.log, "smoothing": look.smoothing},
    }


def _points(curve: ThinCurve) -> dict[str, Any]:
    points: dict[str, Any] = {"x": curve.steps.tolist(), "y": _numbers(curve.values)}
    if curve.low is not None and curve.high is not None:
        points |= {"low": _numbers(curve.low), "high": _numbers(curve.high)}
    if curve.odd:
        points["odd"] = curve.odd
    return points


def _numbers(values: np.ndarray) -> list[float | None]:
    # Seven digits are more than a screen shows, and half of what a float takes.
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]


def _embed(content: dict[str, Any]) -> str:
    # A name with "</script>" or "<!--" in it would end or change the script; "<" is in no other JSON.
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
