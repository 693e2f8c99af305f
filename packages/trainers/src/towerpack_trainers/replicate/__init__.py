"""One model on several devices of this host: builders for any loop, and trainers."""

from ..towers._builder import CrossTowerSum
from ..towers._tensor_buckets import plan_buckets
from ._allreduce import GradientPacker, average_gradients
from ._data_parallel_builders import (
    AsyncMultiGPUBuilder,
    DataParallelBuilder,
    KeepReplicasEqual,
    LeastLoaded,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
)
from ._multi_device_trainers import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    choose_builder,
)
from ._tower_copies import independent_optimizer

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
    "choose_builder",
    "independent_optimizer",
    "plan_buckets",
]
