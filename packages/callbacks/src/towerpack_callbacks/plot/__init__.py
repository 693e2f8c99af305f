"""Makes the report page of one or more runs, and pictures of their curves, from the files of callbacks.

The command is `python -m towerpack_callbacks plot LOGDIR…`.
"""

from ._charts import DASHES, THEMES, Style, write_png
from ._read_record import Event, RunError, RunSegment, measure_goodput, read_events, read_record
from ._read_runs import Curve, read_runs, select_keys, smooth, thin
from ._report_page import write_report

__all__ = [
    "DASHES",
    "THEMES",
    "Curve",
    "Event",
    "RunError",
    "RunSegment",
    "Style",
    "measure_goodput",
    "read_events",
    "read_record",
    "read_runs",
    "select_keys",
    "smooth",
    "thin",
    "write_png",
    "write_report",
]
