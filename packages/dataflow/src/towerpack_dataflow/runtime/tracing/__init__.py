"""Time spans in this process and its workers, and their trace file."""

from ._spans import (
    NO_SPANS,
    TRACE_VARIABLE,
    Spans,
    TraceSummary,
    follow_trace,
    process_spans,
    recorded_trace,
    trace_directory,
)
from ._stage_timer import StageTimer, put_timers, take_off

__all__ = [
    "NO_SPANS",
    "TRACE_VARIABLE",
    "Spans",
    "StageTimer",
    "TraceSummary",
    "follow_trace",
    "process_spans",
    "put_timers",
    "recorded_trace",
    "take_off",
    "trace_directory",
]
