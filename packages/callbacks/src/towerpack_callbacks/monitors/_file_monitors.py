"""The monitors that a run with a directory has by default."""

from __future__ import annotations

from ._log_file import LogFile
from ._monitor import Monitor
from ._run_record import RunRecord
from ._tensorboard import TFEventWriter
from .rows import JSONWriter

__all__ = ["file_monitors"]


def file_monitors() -> list[Monitor]:
    """Returns the monitors that write files of their own into the log directory, unless others are given.

    Event files for TensorBoard, statistics as lines of JSON, what the console says, and the record that a
    report is made of. Each call makes new ones: a monitor is of one run.

    Example:
        >>> print(*(type(monitor).__name__ for monitor in file_monitors()))
        TFEventWriter JSONWriter LogFile RunRecord
    """
    return [TFEventWriter(), JSONWriter(), LogFile(), RunRecord()]
