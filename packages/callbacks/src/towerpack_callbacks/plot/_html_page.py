"""Writes curves to one self-contained page, without network access or libraries."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..writing import atomic_write
from ._chart_style import DASHES, THEMES, Style
from ._read_runs import Picture, Run
from ._thin_curves import ThinCurve, thin

__all__ = ["chart_content", "write_html", "write_page"]

_DATA = "/*DATA*/null"
_ABOVE = "<!--ABOVE-->"
# The maximum of one series of one run: the page embeds them, and a browser loads all of them.
_MOST_PICTURES = 50


def write_html(runs: Sequence[Run], keys: Sequence[str], path: Path, style: Style) -> None:
    """Writes a page with one chart for each statistic, and one slide show for each series of pictures.

    The page has values on hover, smoothing, scale and a choice of steps. If there are many pictures, some are
    left out, but never the last.

    Args:
        runs: the runs.
        keys: names of the statistics and pictures in display order, pictures last.
        path: the file to write; it is replaced when the page is complete.
        style: the initial options of the page.
    """
    write_page(path, {"title": "Curves", **chart_content(runs, keys, style)})


def write_page(path: Path, content: dict[str, Any], above: str = "") -> None:
    """Writes a page of charts.

    Args:
        path: the file to write; it is replaced when the page is complete.
        content: the return value of `chart_content`, and the "title" of the page.
        above: HTML above the charts.
    """
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    before, after = template.split(_ABOVE)
    page = f"{before}{above}{after.replace(_DATA, _embed(content))}"
    with atomic_write(path) as aside:
        aside.write_text(page, encoding="utf-8", errors="replace")


def chart_content(runs: Sequence[Run], keys: Sequence[str], style: Style) -> dict[str, Any]:
    """Returns the data for the script of the page: thinned curves and pictures, and the options."""
    return {
        "keys": [key for key in keys if any(key in run.curves for run in runs)],
        "series": [key for key in keys if any(key in run.pictures for run in runs)],
        "runs": [
            {
                "name": run.name,
                "curves": {key: _points(thin(run.curves[key])) for key in keys if key in run.curves},
                "pictures": {key: _pictures(run.pictures[key]) for key in keys if key in run.pictures},
            }
            for run in runs
        ],
        "colours": {name: theme.runs for name, theme in THEMES.items()},
        "dashes": [" ".join(map(str, dashes)) for dashes in DASHES],
        "style": {"theme": style.theme, "log": style.log, "smoothing": style.smoothing},
    }


def _points(curve: ThinCurve) -> dict[str, Any]:
    points: dict[str, Any] = {"x": curve.steps.tolist(), "y": _numbers(curve.values)}
    if curve.low is not None and curve.high is not None:
        points |= {"low": _numbers(curve.low), "high": _numbers(curve.high)}
    if curve.odd:
        points["odd"] = curve.odd
    return points


def _pictures(series: Sequence[tuple[int, Picture]]) -> list[tuple[int, str]]:
    last = len(series) - 1
    places = np.linspace(0, last, min(len(series), _MOST_PICTURES)).round().astype(int).tolist()
    chosen = [series[place] for place in places]
    return [(step, base64.b64encode(picture.read_bytes()).decode()) for step, picture in chosen]


def _numbers(values: np.ndarray) -> list[float | None]:
    # Seven digits are more than a screen shows, and half of the length of a float.
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]


def _embed(content: dict[str, Any]) -> str:
    # A name with "</script>" or "<!--" would end or change the script; no other JSON contains "<".
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
