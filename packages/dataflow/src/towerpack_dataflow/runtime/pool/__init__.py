"""The workers of one flow and their passes, on the parent's side."""

from ._active_pass import ActivePass, Chunk, InlinePool, Message, Pool
from ._dispatcher import Dispatcher, TaskSize
from ._worker_group import WorkerGroup
from ._worker_handle import WorkerHandle
from ._worker_pool import WorkerPool

__all__ = [
    "ActivePass",
    "Chunk",
    "Dispatcher",
    "InlinePool",
    "Message",
    "Pool",
    "TaskSize",
    "WorkerGroup",
    "WorkerHandle",
    "WorkerPool",
]
