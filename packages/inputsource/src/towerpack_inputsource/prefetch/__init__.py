"""Reading a flow, and moving its datapoints into the graph by a thread, ahead of the steps."""

from ._fast_callable import fast_callable
from ._flow_reader import (
    FlowReader,
    Position,
    Reader,
    as_flow,
    checked_position,
    flow_batch_size,
    flow_size,
    seed_flow,
)
from ._input_status import Activity, Buffer, InputStatus, ThreadActivity
from ._prefetch_loop import BufferClosed, PrefetchLoop, rest_after_put
from ._session_thread import BufferOps, SessionThread

__all__ = [
    "Activity",
    "Buffer",
    "BufferClosed",
    "BufferOps",
    "FlowReader",
    "InputStatus",
    "Position",
    "PrefetchLoop",
    "Reader",
    "SessionThread",
    "ThreadActivity",
    "as_flow",
    "checked_position",
    "fast_callable",
    "flow_batch_size",
    "flow_size",
    "rest_after_put",
    "seed_flow",
]
