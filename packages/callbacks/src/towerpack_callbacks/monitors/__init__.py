"""Records statistics in event files, JSON lines, tables and trackers, or on the console."""

from ._console import ScalarPrinter
from ._file_monitors import file_monitors
from ._log_file import LogFile
from ._monitor import Monitor
from ._monitors import Monitors
from ._run_record import RunRecord
from ._scalar_history import ScalarHistory
from ._tensorboard import TFEventWriter
from .rows import CSVWriter, JSONWriter
from .trackers import CometMonitor, MLflowMonitor, WandbMonitor

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
