"""Draws curves and shows pictures of one or more runs, from the files that callbacks write.

The command is `python -m towerpack_callbacks plot LOGDIR…`.
"""

from ._charts import DASHES, THEMES, Style, Theme, write_html, write_png
from ._read_record import Event, RunSegment, find_event_images, measure_goodput, read_record
from ._read_runs import Curve, Run, RunError, ThinCurve, read_runs, select_keys, smooth, thin
from ._report_page import write_report

__all__ = [
    "DASHES",
    "THEMES",
    "Curve",
    "Event",
    "Run",
    "RunError",
    "RunSegment",
    "Style",
    "Theme",
    "ThinCurve",
    "find_event_images",
    "measure_goodput",
    "read_record",
    "read_runs",
    "select_keys",
    "smooth",
    "thin",
    "write_html",
    "write_png",
    "write_report",
]
