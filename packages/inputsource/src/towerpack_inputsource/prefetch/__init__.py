"""Reads a flow and moves its datapoints into the graph in a thread, ahead of the steps."""

from ._flow_reader import (
    FlowReader,
    as_flow,
    flow_size,
    flow_state,
    in_itself,
    loaded_position,
    needs_no_training,
)
from ._input_status import Activity
from ._one_session import SessionClosedError, session_may_be_closed
from ._prefetch_loop import BufferClosed, PrefetchLoop
from ._session_thread import rest_after_put

__all__ = [
    "Activity",
    "BufferClosed",
    "FlowReader",
    "PrefetchLoop",
    "SessionClosedError",
    "as_flow",
    "flow_size",
    "flow_state",
    "in_itself",
    "loaded_position",
    "needs_no_training",
    "rest_after_put",
    "session_may_be_closed",
]
