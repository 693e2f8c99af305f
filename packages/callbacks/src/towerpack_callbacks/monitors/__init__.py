"""Where statistics go: event files, JSON lines, tables, the console, and whatever you add."""

from ._console import ScalarPrinter
from ._csv import CSVWriter
from ._history import ScalarHistory
from ._jsonl import JSONWriter
from ._monitor import Monitor
from ._monitors import Monitors
from ._tensorboard import TFEventWriter

__all__ = [
    "CSVWriter",
    "JSONWriter",
    "Monitor",
    "Monitors",
    "ScalarHistory",
    "ScalarPrinter",
    "TFEventWriter",
]
