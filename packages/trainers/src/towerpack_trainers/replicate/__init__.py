"""One model on several devices of this host: builders for any loop, and trainers."""

from ..towers._cross_tower_sum import CrossTowerSum
from ..towers._tensor_buckets import plan_buckets
from ._async_builder import AsyncMultiGPUBuilder
from ._average_gradients import average_gradients
from ._data_parallel_builder import DataParallelBuilder
from ._gradient_packing import GradientPacker
from ._keep_replicas_equal import KeepReplicasEqual
from ._multi_device_trainers import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    choose_builder,
)
from ._parameter_server_builder import SyncMultiGPUParameterServerBuilder
from ._replicated_builder import SyncMultiGPUReplicatedBuilder
from ._tower_copies import independent_optimizer
from ._variable_placement import LeastLoaded

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
