"""The style of HTML and PNG charts: colours, dashes, scale."""

from __future__ import annotations

from typing import final

import attrs

__all__ = ["DASHES", "THEMES", "Style", "Theme"]


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
