"""One model on several devices."""

from ._gradients import average_gradients
from ._sync import SyncMultiGPUTrainer

__all__ = ["SyncMultiGPUTrainer", "average_gradients"]
