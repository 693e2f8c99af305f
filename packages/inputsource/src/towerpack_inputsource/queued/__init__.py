"""Sources that a thread fills through a queue in the graph."""

from ._batch_queue_input import BatchQueueInput
from ._queue_input import QueueInput
from ._zmq_input import ZMQInput

__all__ = ["BatchQueueInput", "QueueInput", "ZMQInput"]
