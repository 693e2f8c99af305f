"""Sources with a queue in the graph, filled by a thread or by the training."""

from ._batch_queue_input import BatchQueueInput
from ._queue_input import QueueInput, ZMQInput
from ._rollout_input import RolloutInput

__all__ = ["BatchQueueInput", "QueueInput", "RolloutInput", "ZMQInput"]
