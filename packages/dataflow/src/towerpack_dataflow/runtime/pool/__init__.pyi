from ._dispatcher import Dispatcher, TaskSize
from ._worker_pool import WorkerPool

__all__ = ["Dispatcher", "TaskSize", "WorkerPool"]
