"""Monitors that keep a file with a row of statistics for each step."""

from ._csv import CSVWriter
from ._json_lines import JSONWriter
from ._step_row import COUNTERS, Row, StepRow

__all__ = ["COUNTERS", "CSVWriter", "JSONWriter", "Row", "StepRow"]
