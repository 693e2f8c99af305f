"""Charts of runs: their style, a PNG, and a page of HTML."""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np

from ..writing._atomic_write import atomic_write
from ._read_record import RunError
from ._read_runs import Picture, Run, ThinCurve, smooth, thin

__all__ = ["DASHES", "THEMES", "Style", "Theme", "chart_content", "write_png"]


@final
@attrs.frozen
class Theme:
    """The colours of a chart.

    Attributes:
        background, text, muted, grid: colours around the curves.
        runs: one colour for each run, from the colour-blind safe palette of Okabe and Ito
            (jfly.uni-koeln.de/color); colours with low contrast to the background are lighter or darker here.
    """

    background: str
    text: str
    muted: str
    grid: str
    runs: tuple[str, ...]


@final
@attrs.frozen
class Style:
    """The initial drawing options of curves.

    Attributes:
        theme: "light" or "dark"; None: light, or in a page the preference of the reader's system.
        log: whether the scale of values is logarithmic.
        smoothing: weight of the moving average, in [0, 1).
    """

    theme: str | None = None
    log: bool = False
    smoothing: float = 0.0


THEMES = {
    "light": Theme(
        background="#ffffff",
        text="#1f2328",
        muted="#59636e",
        grid="#d8dee4",
        runs=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b98200", "#3a3a3a", "#56b4e9"),
    ),
    "dark": Theme(
        background="#15191f",
        text="#e6edf3",
        muted="#9aa4af",
        grid="#2d343d",
        runs=("#56b4e9", "#ff8c3b", "#2fc79a", "#e39cc6", "#f0c04a", "#d7dde3", "#4f8fe0"),
    ),
}

# Used if there are more runs than colours; lengths of line and gap, in points.
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2.5), (1.5, 2), (7, 2, 1.5, 2))


_COLUMNS = 3
_WIDTH, _HEIGHT = 4.8, 3.2  # of one chart, in inches
_MOST_PIXELS = 30_000  # in height; Agg draws up to 65,536
# Fonts with characters that DejaVu Sans lacks, if installed.
_FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans", "WenQuanYi Zen Hei", "Noto Color Emoji")
_MARKERS = {"NaN": "x", "Infinity": "^", "-Infinity": "v"}


def write_png(runs: Sequence[Run], keys: Sequence[str], path: Path, style: Style) -> None:
    """Draws one chart for each statistic, with a curve for each run that has it.

    Args:
        runs: the runs.
        keys: names of the statistics in the order of their charts; names of pictures are ignored.
        path: the file to write; it is replaced when the picture is complete.
        style: colours, scale, smoothing.

    Raises:
        ImportError: matplotlib is not installed.
        RunError: none of the keys is a statistic.
    """
    keys = [key for key in keys if any(key in run.curves for run in runs)]
    if not keys:
        raise RunError("none of the names is a statistic; write a page: -o report.html")
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "A PNG needs matplotlib, which is not installed: pip install 'towerpack-callbacks[plot]', "
            "or write a page: -o report.html."
        ) from error
    theme = THEMES[style.theme or "light"]
    with matplotlib.rc_context(_settings(theme)), warnings.catch_warnings():
        # A character may be missing from all fonts; the box in its place suffices.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        _save(_draw(runs, keys, style, theme), path)


def _settings(theme: Theme) -> Any:
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return {
        "font.family": [font for font in _FONTS if font in installed],
        "font.size": 9,
        "figure.facecolor": theme.background,
        "axes.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "text.color": theme.text,
        "axes.labelcolor": theme.muted,
        "axes.edgecolor": theme.grid,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "axes.titlecolor": theme.text,
        "grid.color": theme.grid,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.constrained_layout.w_pad": 0.1,
        "figure.constrained_layout.h_pad": 0.08,
    }


def _draw(runs: Sequence[Run], keys: Sequence[str], style: Style, theme: Theme) -> Any:
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(keys))
    rows = -(-len(keys) // columns)
    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows + 0.4), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for key, axes in zip(keys, grid):
        _draw_chart(axes, key, runs, style, theme)
    for axes in list(grid)[len(keys) :]:
        axes.set_axis_off()
    _draw_legend(figure, runs, theme)
    return figure


def _draw_legend(figure: Any, runs: Sequence[Run], theme: Theme) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], linewidth=2.2, **_style(number, theme)) for number in range(len(runs))]
    # matplotlib would omit a label that starts with "_".
    labels = [_plain(run.name) if not run.name.startswith("_") else f" {_plain(run.name)}" for run in runs]
    figure.legend(lines, labels, loc="outside upper left", ncols=min(len(runs), 4), frameon=False)


def _draw_chart(axes: Any, key: str, runs: Sequence[Run], style: Style, theme: Theme) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_title(_plain(key), loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel("step")
    axes.grid(visible=True, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for number, run in enumerate(runs):
        if key in run.curves:
            _draw_curve(axes, thin(run.curves[key]), _style(number, theme), style)
    if style.log and any(np.any(run.curves[key].values > 0) for run in runs if key in run.curves):
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=True)
    axes.margins(x=0.02, y=0.08)


def _draw_curve(axes: Any, curve: ThinCurve, line: dict[str, Any], style: Style) -> None:
    colour = line["color"]
    lonely = len(curve.steps) == 1
    if curve.low is not None:
        axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    if style.smoothing:
        axes.plot(curve.steps, curve.values, color=colour, alpha=0.3, linewidth=0.8)
    values = smooth(curve.values, style.smoothing) if style.smoothing else curve.values
    axes.plot(curve.steps, values, linewidth=1.3, marker="o" if lonely else None, markersize=4, **line)
    for kind, marker in _MARKERS.items():
        steps = [step for step, odd in curve.odd if odd == kind]
        # On the chart's edge for any scale: the lower edge for NaN and minus infinity.
        height = 1.0 if kind == "Infinity" else 0.0
        axes.plot(
            steps,
            [height] * len(steps),
            marker,
            color=colour,
            markersize=4,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            in_layout=False,
        )


def _style(number: int, theme: Theme) -> dict[str, Any]:
    dashes = DASHES[number // len(theme.runs) % len(DASHES)]
    return {"color": theme.runs[number % len(theme.runs)], "linestyle": (0, dashes) if dashes else "-"}


def _plain(text: str) -> str:
    # matplotlib draws no half of a pair, as in a file name that is not UTF-8, and would parse a formula.
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path) as aside:
        figure.savefig(aside, format="png", dpi=min(150, _MOST_PIXELS / figure.get_figheight()))


# The maximum of one series of one run: the page embeds them, and a browser loads all of them.
_MOST_PICTURES = 50
# Statistics of the input, for its tuning, not of the model.
_OF_INPUT = "/queue_size"


def chart_content(runs: Sequence[Run], keys: Sequence[str], style: Style) -> dict[str, Any]:
    """Returns the data for the script of the page: thinned curves and pictures, and the options."""
    drawn = [key for key in keys if any(key in run.curves for run in runs)]
    return {
        "keys": [key for key in drawn if not key.endswith(_OF_INPUT)],
        "input": [key for key in drawn if key.endswith(_OF_INPUT)],
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
