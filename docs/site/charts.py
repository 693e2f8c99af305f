"""Draws figures of benchmarks/RESULTS.md as charts, which the landing page shows."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHARTS", "Bar", "Chart", "bars", "svg", "write"]

_WIDTH, _ROW, _BAR = 340, 46, 14
_NUMBER = r"([\d,.]+)"


@dataclass(frozen=True)
class Chart:
    """A chart of some rows of the results.

    Attributes:
        title: the measured quantity.
        unit: its unit.
        after: a text of the results, after which the rows are searched.
        rows: for each bar, its label and the label of the row; the first bar is Towerpack's.
    """

    title: str
    unit: str
    after: str
    rows: dict[str, str]


@dataclass(frozen=True)
class Bar:
    """A bar: its label, and the median and the range of the rounds."""

    label: str
    median: float
    least: float
    most: float


CHARTS = {
    "training": Chart(
        "Training LeNet on two cores",
        "steps/s",
        "steps/s within epochs",
        {
            "SimpleTrainer": "SimpleTrainer",
            "Keras fit, fastest of nine settings": "Keras fit, no XLA, 100 steps a call, tf.data",
            "Tensorpack": "Tensorpack 0.11",
            "Keras fit, as installed": "Keras fit, as installed",
        },
    ),
    "images": Chart(
        "Loading photographs on two cores",
        "images/s",
        "## Images",
        {
            "towerpack-dataflow": "ours, processes",
            "SPDL, with OpenCV": "SPDL, OpenCV",
            "tf.data": "tf.data",
            "Albumentations": "Albumentations",
            "torchvision": "torchvision",
        },
    ),
    "agents": Chart(
        "Training PPO on CartPole",
        "steps/s",
        "settings of the defaults",
        {
            "PPOTrainer": "PPOTrainer",
            "Stable-Baselines3, one thread": "Stable-Baselines3, one thread",
            "Stable-Baselines3, all threads": "Stable-Baselines3, all threads",
        },
    ),
}


def write(results: Path, folder: Path) -> None:
    """Writes `chart-NAME.svg` for each of `CHARTS` into a folder."""
    text = results.read_text(encoding="utf-8")
    for name, chart in CHARTS.items():
        (folder / f"chart-{name}.svg").write_text(svg(name, chart, bars(chart, text)), encoding="utf-8")


def bars(chart: Chart, results: str) -> list[Bar]:
    """Returns the bars of a chart; raises ValueError if a row is not in the results."""
    section = results.partition(chart.after)[2]
    found = []
    for label, row in chart.rows.items():
        pattern = rf"^ *{re.escape(row)} {{2,}}{_NUMBER} +\( *{_NUMBER} to +{_NUMBER}\)"
        match = re.search(pattern, section, re.MULTILINE)
        if match is None:
            raise ValueError(f"the results have no row {row!r} after {chart.after!r}")
        found.append(Bar(label, *(float(number.replace(",", "")) for number in match.groups())))
    return found


def svg(name: str, chart: Chart, shown: list[Bar]) -> str:
    """Returns a chart with horizontal bars, and the range of the rounds as a line on each."""
    scale = _WIDTH / max(bar.most for bar in shown)
    described = "; ".join(f"{bar.label} {bar.median:,.0f}" for bar in shown)
    lines = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_ROW * len(shown)}"'
        f' role="img" aria-labelledby="chart-{name}-title">',
        f'<title id="chart-{name}-title">{html.escape(f"{chart.title}, {chart.unit}: {described}")}</title>',
    ]
    for at, bar in enumerate(shown):
        top = at * _ROW
        middle = top + 22 + _BAR / 2
        kind = "ours" if at == 0 else "other"
        lines += [
            f'<text x="0" y="{top + 15}">{html.escape(bar.label)}</text>',
            f'<text class="value" x="{_WIDTH}" y="{top + 15}">{bar.median:,.0f}</text>',
            f'<rect class="{kind}" y="{top + 22}" width="{bar.median * scale:.1f}" height="{_BAR}"/>',
            f'<path class="range" d="M{bar.least * scale:.1f} {middle}H{bar.most * scale:.1f}"/>',
        ]
    return "\n".join([*lines, "</svg>", ""])
