"""Draws figures of RESULTS.md as charts: `python docs/site/charts.py` writes them to docs/pictures.

README, pages and the landing page of the site show them. A test compares them with the results.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHARTS", "Bar", "Chart", "bars", "drawn"]

ROOT = Path(__file__).resolve().parents[2]
_WIDTH, _ROW, _BAR = 340, 46, 14
_NUMBER = r"([\d,.]+)"
# Colours of the site's theme, and of readers that have none.
_STYLE = """<style>
  .chart text { font: 14px system-ui, sans-serif; fill: var(--color-foreground-primary, #111); }
  .chart .value { text-anchor: end; font-variant-numeric: tabular-nums; }
  .chart .ours { fill: var(--color-brand-primary, #0a4bff); }
  .chart .other { fill: var(--color-foreground-border, #878787); }
  .chart .range { stroke: var(--color-foreground-primary, #111); stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .chart text { fill: var(--color-foreground-primary, #e6e6e6); }
    .chart .ours { fill: var(--color-brand-primary, #6f9bff); }
    .chart .range { stroke: var(--color-foreground-primary, #e6e6e6); }
  }
</style>"""


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
            "JAX, fastest of three ways": "JAX, lax.scan, products of patches",
            "Tensorpack": "Tensorpack 0.11",
            "PyTorch, fastest of three ways": "PyTorch, fused Adam, channels last",
            "Keras fit, as installed": "Keras fit, as installed",
        },
    ),
    "small": Chart(
        "A step of a small network on two cores; less is better",
        "microseconds",
        "tiny MLP (64-32-10",
        {
            "SimpleTrainer, data from a flow": "trainer, flow over arrays",
            "JAX, a jitted step": "JAX, a jitted step, NumPy batches",
            "JAX, an epoch in lax.scan": "JAX, an epoch in lax.scan",
            "Keras fit, 100 steps a call": "Keras fit, steps_per_execution=100",
            "Tensorpack, resident data": "Tensorpack 0.11",
            "PyTorch, fused Adam": "PyTorch, fused Adam",
            "Keras fit, as installed": "Keras fit",
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


def drawn(name: str, chart: Chart, shown: list[Bar]) -> str:
    """Returns a chart with horizontal bars, and the range of the rounds as a line on each."""
    scale = _WIDTH / max(bar.most for bar in shown)
    described = "; ".join(f"{bar.label} {bar.median:,.0f}" for bar in shown)
    lines = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_ROW * len(shown)}"'
        f' width="480" role="img" aria-labelledby="chart-{name}-title">',
        f'<title id="chart-{name}-title">{html.escape(f"{chart.title}, {chart.unit}: {described}")}</title>',
        _STYLE,
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


def main() -> None:
    """Writes `docs/pictures/chart-NAME.svg` for each of `CHARTS`."""
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for name, chart in CHARTS.items():
        file = ROOT / "docs" / "pictures" / f"chart-{name}.svg"
        file.write_text(drawn(name, chart, bars(chart, results)), encoding="utf-8")


if __name__ == "__main__":
    main()
