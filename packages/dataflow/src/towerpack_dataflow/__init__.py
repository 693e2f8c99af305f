"""Load data fast, in pure Python: composable, exact, resumable flows. Never imports TensorFlow."""

from ._errors import (
    ArgumentError,
    ArgumentTypeError,
    BatchError,
    ComponentError,
    DataFlowError,
    DatapointTimeoutError,
    EmptyFlowError,
    EnvCallError,
    EnvError,
    EnvTimeoutError,
    ExhaustedError,
    FlowDefinitionError,
    MessageError,
    NotAddressableError,
    ParcelError,
    RemoteError,
    SegmentError,
    SendError,
    StateError,
    TooFewTransitionsError,
    UnknownLengthError,
    WorkerDiedError,
    WorkerError,
)
from .batch import BatchData
from .bench._bottleneck import Diagnosis, SpeedResult
from .bench._data_speed import TestDataSpeed
from .flow._epoch import Epoch
from .flow._flow import DataFlow
from .operators._map_component import MapDataComponent
from .operators._map_data import MapData
from .operators._print_data import PrintData
from .operators._proxy_flow import ProxyDataFlow, RNGDataFlow
from .operators._repeat import FixedSizeData, RepeatedData
from .operators._shard import ShardData, reshard
from .runtime import (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    WorkerInfo,
    flows_read_here,
    get_worker_info,
)
from .runtime._suggest_workers import Suggestion, autotune
from .sources._from_arrays import DataFromArrays
from .sources._from_iterable import DataFromGenerator, DataFromIterable
from .sources._from_list import DataFromList

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
    "DatapointTimeoutError",
    "Diagnosis",
    "EmptyFlowError",
    "EnvCallError",
    "EnvError",
    "EnvTimeoutError",
    "Epoch",
    "ExhaustedError",
    "FixedSizeData",
    "FlowDefinitionError",
    "MapData",
    "MapDataComponent",
    "MessageError",
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
    "RemoteError",
    "RepeatedData",
    "SegmentError",
    "SendError",
    "ShardData",
    "SpeedResult",
    "StateError",
    "Suggestion",
    "TestDataSpeed",
    "TooFewTransitionsError",
    "UnknownLengthError",
    "WorkerDiedError",
    "WorkerError",
    "WorkerInfo",
    "autotune",
    "flows_read_here",
    "get_worker_info",
    "reshard",
]
