"""Records statistics in event files, JSON lines, tables and trackers, or on the console."""

from ._console import LogFile, ScalarPrinter
from ._file_monitors import CSVWriter, JSONWriter, RunRecord, TFEventWriter, file_monitors
from ._monitors import Monitor, Monitors, ScalarHistory
from ._trackers import CometMonitor, MLflowMonitor, WandbMonitor

__all__ = [
    "CSVWriter",
    "CometMonitor",
    "JSONWriter",
    "LogFile",
    "MLflowMonitor",
    "Monitor",
    "Monitors",
    "RunRecord",
    "ScalarHistory",
    "ScalarPrinter",
    "TFEventWriter",
    "WandbMonitor",
    "file_monitors",
]
