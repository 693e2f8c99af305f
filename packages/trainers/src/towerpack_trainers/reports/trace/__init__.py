"""Traces of trainings: spans of time on a clock shared by all processes of a machine, and trace files."""

from ._training_trace import TrainingTrace, merge_traces, read_trace, timed_calls, timed_session, write_trace

__all__ = [
    "TrainingTrace",
    "merge_traces",
    "read_trace",
    "timed_calls",
    "timed_session",
    "write_trace",
]
