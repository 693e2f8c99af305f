"""Draws curves and shows pictures of one or more runs, from the files that callbacks write.

The command is `python -m towerpack_callbacks plot LOGDIR…`.
"""

from ._chart_style import DASHES, THEMES, Style, Theme
from ._html_page import write_html
from ._png_chart import write_png
from ._read_runs import Curve, Run, RunError, read_runs, select_keys
from ._thin_curves import ThinCurve, smooth, thin

__all__ = [
    "DASHES",
    "THEMES",
    "Curve",
    "Run",
    "RunError",
    "Style",
    "Theme",
    "ThinCurve",
    "read_runs",
    "select_keys",
    "smooth",
    "thin",
    "write_html",
    "write_png",
]
