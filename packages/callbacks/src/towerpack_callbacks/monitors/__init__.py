"""Where statistics go: event files, JSON lines, the console, and whatever you add."""

from ._console import ScalarPrinter
from ._jsonl import JSONWriter
from ._monitor import Monitor
from ._monitors import Monitors
from ._tensorboard import TFEventWriter

__all__ = ["JSONWriter", "Monitor", "Monitors", "ScalarPrinter", "TFEventWriter"]
