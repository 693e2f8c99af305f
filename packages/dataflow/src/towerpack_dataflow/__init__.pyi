from . import augment as augment
from . import datasets as datasets
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
from .augment import (
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    ImageFromFile,
)
from .batch._batch_data import BatchData
from .batch._batch_data_by_shape import BatchDataByShape
from .batch._pad_batch_data import PadBatchData
from .batch._refit import refit
from .batch._window_data import WindowData
from .batch.planners._batch_by_budget import BatchByBudget
from .batch.planners._bucket_data import BucketData
from .batch.planners._mix_data import MixData
from .batch.planners._pack_data import PackData
from .batch.planners._skip_data import SkipData
from .batch.planners._substitute_data import SubstituteData
from .datasets import OnlineMoments, StatCounter
from .flow._epoch import Epoch
from .flow._flow import DataFlow
from .flow._node import Effect
from .flow._trace import Origin, Origins, Trace
from .formats.arrays._file_rows import NumpyData
from .formats.arrays._hdf5 import HDF5Data, HDF5Serializer
from .formats.arrays._numpy_serializer import NumpySerializer
from .formats.lmdb._caffe_lmdb import CaffeLMDB
from .formats.lmdb._lmdb_data import LMDBData, LMDBDataDecoder, LMDBSerializer
from .formats.tables._arrow_data import ArrowData, ArrowSerializer
from .formats.tables._chunked_rows import ChunkShuffle
from .formats.tables._parquet_data import ParquetData, ParquetSerializer
from .formats.tar._tar_data import TarData
from .formats.tar._write_tar import index_tar, write_tar, write_tar_shards
from .formats.text._csv_data import CSVData, CSVSerializer, index_csv
from .formats.text._jsonl_data import JSONLData, JSONLSerializer, index_jsonl
from .formats.text._svmlight_data import SVMLightData
from .formats.tfrecord._example import decode_example, decode_sequence_example, encode_example
from .formats.tfrecord._framing import index_tfrecord, write_tfrecord
from .formats.tfrecord._tfrecord_data import TFRecordData, TFRecordSerializer
from .operators._locally_shuffle import LocallyShuffleData
from .operators._map_component import MapDataComponent, SelectComponent
from .operators._map_data import FilterData, MapData
from .operators._print_data import PrintData
from .operators._proxy_flow import ProxyDataFlow, RNGDataFlow
from .operators._repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from .operators._shard import ShardData, reshard
from .operators.cache._cache_data import CacheData
from .operators.cache._disk_cache import DiskCache
from .operators.cache._memory_cache import MemoryCache
from .operators.combine._concat_data import ConcatData
from .operators.combine._join_data import JoinData, ZipData
from .operators.combine._random_choose import RandomChooseData
from .operators.combine._random_mix import RandomMixData
from .runtime._multi_process import MultiProcessMapData, MultiProcessRunner
from .runtime._multi_thread import MultiThreadMapData, MultiThreadRunner
from .runtime._parallel_flow import flows_read_here
from .runtime._parallel_map_and_batch import MultiProcessMapAndBatchData
from .runtime._spans import process_spans
from .runtime._suggest_workers import Suggestion, autotune
from .runtime.bench._bottleneck import Diagnosis, SpeedResult
from .runtime.bench._data_speed import TestDataSpeed
from .runtime.bench._trace_file import TraceSummary
from .runtime.on_ray._ray_runner import RayRunner
from .runtime.worker._task_handler import WorkerInfo, get_worker_info
from .sources._fake_data import FakeData
from .sources._from_arrays import DataFromArrays
from .sources._from_iterable import DataFromGenerator, DataFromIterable, DataFromList
from .sources._from_ragged import DataFromRagged

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
