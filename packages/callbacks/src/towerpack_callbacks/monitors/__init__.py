"""Records statistics in event files, JSON lines, tables and trackers, or on the console."""

from ._console import LogFile, ScalarPrinter
from ._monitor import Monitor
from ._monitors import Monitors, ScalarHistory
from ._row_files import CSVWriter, JSONWriter
from ._run_record import RunRecord, file_monitors
from ._tensorboard import TFEventWriter
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
