"""The default monitors of a run with a log directory."""

from __future__ import annotations

from ._log_file import LogFile
from ._monitor import Monitor
from ._run_record import RunRecord
from ._tensorboard import TFEventWriter
from .rows import JSONWriter

__all__ = ["file_monitors"]


def file_monitors() -> list[Monitor]:
    """Returns the default monitors that write files to the log directory.

    They write event files for TensorBoard, statistics as JSON lines, a log of the console, and the record for
    reports. Each call makes new ones, since a monitor belongs to one run.

    Example:
        >>> print(*(type(monitor).__name__ for monitor in file_monitors()))
        TFEventWriter JSONWriter LogFile RunRecord
    """
    return [TFEventWriter(), JSONWriter(), LogFile(), RunRecord()]
