"""The workers of one flow and their passes, on the parent's side."""

from ._dispatcher import Dispatcher, TaskSize
from ._worker_pool import WorkerPool

__all__ = ["Dispatcher", "TaskSize", "WorkerPool"]
