"""Traces of trainings: spans of time on a clock shared by all processes of a machine, and trace files."""

from ._timed_calls import timed_calls, timed_session
from ._trace_files import merge_traces, read_trace, write_trace
from ._training_trace import TrainingTrace

__all__ = [
    "TrainingTrace",
    "merge_traces",
    "read_trace",
    "timed_calls",
    "timed_session",
    "write_trace",
]
