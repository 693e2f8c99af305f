"""Where statistics go: event files, JSON lines, tables, the console, and whatever you add."""

from ._comet import CometMonitor
from ._console import ScalarPrinter
from ._csv import CSVWriter
from ._json_lines import JSONWriter
from ._mlflow import MLflowMonitor
from ._monitor import Monitor
from ._monitors import Monitors
from ._scalar_history import ScalarHistory
from ._tensorboard import TFEventWriter
from ._wandb import WandbMonitor

__all__ = [
    "CSVWriter",
    "CometMonitor",
    "JSONWriter",
    "MLflowMonitor",
    "Monitor",
    "Monitors",
    "ScalarHistory",
    "ScalarPrinter",
    "TFEventWriter",
    "WandbMonitor",
]
