"""Reads a flow and moves its datapoints into the graph in a thread, ahead of the steps."""

from ._fast_callable import fast_callable
from ._flow_protocol import (
    as_flow,
    flow_batch_size,
    flow_size,
    flow_state,
    in_itself,
    is_endless,
    is_live,
    is_sharded,
    loaded_position,
    needs_no_training,
    seed_flow,
    unread_state,
)
from ._flow_reader import FlowReader, Position, Reader
from ._input_status import Activity, Buffer, InputStatus, ThreadActivity
from ._measured_flow import MeasuredFlow
from ._one_session import OneSession, ends_run_on_error
from ._prefetch_loop import BufferClosed, PrefetchLoop, rest_after_put
from ._refit_position import RefittedState, refit_position
from ._session_errors import (
    END_OF_DATA,
    LOST_SESSION,
    SessionClosedError,
    close_in_time,
    session_may_be_closed,
)
from ._session_thread import BufferOps, SessionThread

__all__ = [
    "END_OF_DATA",
    "LOST_SESSION",
    "Activity",
    "Buffer",
    "BufferClosed",
    "BufferOps",
    "FlowReader",
    "InputStatus",
    "MeasuredFlow",
    "OneSession",
    "Position",
    "PrefetchLoop",
    "Reader",
    "RefittedState",
    "SessionClosedError",
    "SessionThread",
    "ThreadActivity",
    "as_flow",
    "close_in_time",
    "ends_run_on_error",
    "fast_callable",
    "flow_batch_size",
    "flow_size",
    "flow_state",
    "in_itself",
    "is_endless",
    "is_live",
    "is_sharded",
    "loaded_position",
    "needs_no_training",
    "refit_position",
    "rest_after_put",
    "seed_flow",
    "session_may_be_closed",
    "unread_state",
]
