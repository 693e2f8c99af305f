"""Load data fast, in pure Python: composable, exact, resumable flows. Never imports TensorFlow."""

from ._arrays import DataFromArrays
from ._autotune import Suggestion, autotune
from ._batch import BatchData
from ._diagnosis import Diagnosis, SpeedResult
from ._errors import (
    ArgumentError,
    ArgumentTypeError,
    BatchError,
    ComponentError,
    DataFlowError,
    EmptyFlowError,
    ExhaustedError,
    FlowDefinitionError,
    NotAddressableError,
    ParcelError,
    SendError,
    StateError,
    UnknownLengthError,
    WorkerDiedError,
    WorkerError,
)
from ._flow import DataFlow
from ._inspect import PrintData
from ._map import MapData, MapDataComponent
from ._order import FixedSizeData, RepeatedData
from ._proxy import ProxyDataFlow, RNGDataFlow
from ._seeding import Epoch
from ._shard import ShardData, reshard
from ._sources import DataFromGenerator, DataFromIterable, DataFromList
from ._speed import TestDataSpeed
from .runtime import (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    WorkerInfo,
    get_worker_info,
)

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BatchData",
    "BatchError",
    "ComponentError",
    "DataFlow",
    "DataFlowError",
    "DataFromArrays",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "Diagnosis",
    "EmptyFlowError",
    "Epoch",
    "ExhaustedError",
    "FixedSizeData",
    "FlowDefinitionError",
    "MapData",
    "MapDataComponent",
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "NotAddressableError",
    "ParcelError",
    "PrintData",
    "ProxyDataFlow",
    "RNGDataFlow",
    "RepeatedData",
    "SendError",
    "ShardData",
    "SpeedResult",
    "StateError",
    "Suggestion",
    "TestDataSpeed",
    "UnknownLengthError",
    "WorkerDiedError",
    "WorkerError",
    "WorkerInfo",
    "autotune",
    "get_worker_info",
    "reshard",
]
