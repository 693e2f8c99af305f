"""One model on several devices of this host: builders for any loop, and trainers."""

from ._async import AsyncMultiGPUBuilder
from ._builder import DataParallelBuilder
from ._exchange import CrossTowerSum
from ._gradients import average_gradients
from ._packing import GradientPacker, plan_buckets
from ._parameter_server import SyncMultiGPUParameterServerBuilder
from ._placement import LeastLoaded
from ._replicas import KeepReplicasEqual
from ._replicated import SyncMultiGPUReplicatedBuilder
from ._trainers import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

__all__ = [
    "AsyncMultiGPUBuilder",
    "AsyncMultiGPUTrainer",
    "CrossTowerSum",
    "DataParallelBuilder",
    "GradientPacker",
    "KeepReplicasEqual",
    "LeastLoaded",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "average_gradients",
    "plan_buckets",
]
