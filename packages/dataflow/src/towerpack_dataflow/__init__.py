"""Load data fast, in pure Python: composable, exact, resumable flows. Never imports TensorFlow."""

import typing as _typing

from ._argument_checks import renamed_exports as _renamed_exports
from ._errors import (
    ArgumentError,
    ArgumentTypeError,
    BatchError,
    CacheError,
    ClusterError,
    ComponentError,
    DataFlowError,
    DataFlowTerminated,
    DatapointTimeoutError,
    DatasetError,
    EmptyFlowError,
    EnvCallError,
    EnvError,
    EnvTimeoutError,
    ErrorLimitError,
    ExhaustedError,
    FlowDefinitionError,
    FormatError,
    ImageError,
    JoinError,
    MessageError,
    NotAddressableError,
    PayloadError,
    RemoteError,
    SegmentError,
    SendError,
    StateError,
    StorageError,
    TooFewTransitionsError,
    UnknownLengthError,
    UnsupportedTransformError,
    WorkerDiedError,
    WorkerError,
)
from .augment.flows import (
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    ImageFromFile,
)
from .batch import BatchData, BatchDataByShape, PadBatchData, WindowData, refit
from .batch.planners import BatchByBudget, BucketData, MixData, PackData, SkipData, SubstituteData
from .datasets._online_moments import OnlineMoments, StatCounter
from .flow._epoch import Epoch
from .flow._flow import DataFlow
from .flow._node import Effect
from .flow._trace import Origin, Origins, Trace
from .formats.arrays import HDF5Data, HDF5Serializer, NumpyData, NumpySerializer
from .formats.lmdb import CaffeLMDB, LMDBData, LMDBDataDecoder, LMDBSerializer
from .formats.tables import (
    ArrowData,
    ArrowSerializer,
    ChunkShuffle,
    ParquetData,
    ParquetSerializer,
)
from .formats.tar import TarData, index_tar, write_tar, write_tar_shards
from .formats.text import (
    CSVData,
    CSVSerializer,
    JSONLData,
    JSONLSerializer,
    SVMLightData,
    index_csv,
    index_jsonl,
)
from .formats.tfrecord import (
    TFRecordData,
    TFRecordSerializer,
    decode_example,
    decode_sequence_example,
    encode_example,
    index_tfrecord,
    write_tfrecord,
)
from .operators._locally_shuffle import LocallyShuffleData
from .operators._map_component import MapDataComponent
from .operators._map_data import FilterData, MapData
from .operators._print_data import PrintData
from .operators._proxy_flow import ProxyDataFlow, RNGDataFlow
from .operators._repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from .operators._select_component import SelectComponent
from .operators._shard import ShardData, reshard
from .operators.cache import CacheData, DiskCache, MemoryCache
from .operators.combine import ConcatData, JoinData, RandomChooseData, RandomMixData, ZipData
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
from .runtime.bench._bottleneck import Diagnosis, SpeedResult
from .runtime.bench._data_speed import TestDataSpeed
from .runtime.on_ray import RayRunner
from .runtime.tracing import TraceSummary, process_spans
from .sources._fake_data import FakeData
from .sources._from_arrays import DataFromArrays
from .sources._from_iterable import DataFromGenerator, DataFromIterable, DataFromList
from .sources._from_ragged import DataFromRagged

# Type checkers would otherwise accept any name as an export.
if not _typing.TYPE_CHECKING:
    __getattr__ = _renamed_exports(__name__, {"ParcelError": "PayloadError"})

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArrowData",
    "ArrowSerializer",
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "BatchByBudget",
    "BatchData",
    "BatchDataByShape",
    "BatchError",
    "BucketData",
    "CSVData",
    "CSVSerializer",
    "CacheData",
    "CacheError",
    "CaffeLMDB",
    "ChunkShuffle",
    "ClusterError",
    "ComponentError",
    "ConcatData",
    "DataFlow",
    "DataFlowError",
    "DataFlowTerminated",
    "DataFromArrays",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "DataFromRagged",
    "DatapointTimeoutError",
    "DatasetError",
    "Diagnosis",
    "DiskCache",
    "Effect",
    "EmptyFlowError",
    "EnvCallError",
    "EnvError",
    "EnvTimeoutError",
    "Epoch",
    "ErrorLimitError",
    "ExhaustedError",
    "FakeData",
    "FilterData",
    "FixedSizeData",
    "FlowDefinitionError",
    "FormatError",
    "HDF5Data",
    "HDF5Serializer",
    "ImageError",
    "ImageFromFile",
    "JSONLData",
    "JSONLSerializer",
    "JoinData",
    "JoinError",
    "LMDBData",
    "LMDBDataDecoder",
    "LMDBSerializer",
    "LocallyShuffleData",
    "MapData",
    "MapDataComponent",
    "MemoryCache",
    "MessageError",
    "MixData",
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "NotAddressableError",
    "NumpyData",
    "NumpySerializer",
    "OnlineMoments",
    "Origin",
    "Origins",
    "PackData",
    "PadBatchData",
    "ParquetData",
    "ParquetSerializer",
    "PayloadError",
    "PrintData",
    "ProxyDataFlow",
    "RNGDataFlow",
    "RandomChooseData",
    "RandomMixData",
    "RayRunner",
    "RemoteError",
    "RepeatedData",
    "RepeatedDataPoint",
    "SVMLightData",
    "SegmentError",
    "SelectComponent",
    "SendError",
    "ShardData",
    "SkipData",
    "SpeedResult",
    "StatCounter",
    "StateError",
    "StorageError",
    "SubstituteData",
    "Suggestion",
    "TFRecordData",
    "TFRecordSerializer",
    "TarData",
    "TestDataSpeed",
    "TooFewTransitionsError",
    "Trace",
    "TraceSummary",
    "UnknownLengthError",
    "UnsupportedTransformError",
    "WindowData",
    "WorkerDiedError",
    "WorkerError",
    "WorkerInfo",
    "ZipData",
    "autotune",
    "decode_example",
    "decode_sequence_example",
    "encode_example",
    "flows_read_here",
    "get_worker_info",
    "index_csv",
    "index_jsonl",
    "index_tar",
    "index_tfrecord",
    "process_spans",
    "refit",
    "reshard",
    "write_tar",
    "write_tar_shards",
    "write_tfrecord",
]
