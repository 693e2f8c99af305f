"""Time spans in this process and its workers, and their trace file."""

from ._spans import NO_SPANS, TRACE_VARIABLE, Spans, follow_trace, process_spans, trace_directory
from ._stage_timer import StageTimer, put_timers, take_off
from ._trace_file import TraceSummary, recorded_trace

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
