"""Bring data into a TensorFlow graph, prefetched, for any session loop."""

from ._errors import (
    DatapointError,
    DatapointShapeError,
    DatapointStructureError,
    DatapointTypeError,
    EmptyFlowError,
    FlowEndError,
    InputSourceError,
    NotRunningError,
    SetupError,
    SpecError,
    StagingError,
)
from ._input_for import input_for
from ._proxy_source import ProxyInputSource, remap_input_source
from ._source import InputSource
from .fed._feed_input import FeedInput
from .fed._placeholder_input import PlaceholderInput
from .in_graph._constant_input import DummyConstantInput
from .in_graph._tensor_input import TensorInput
from .in_graph._tfdata_input import TFDatasetInput
from .prefetch._fast_callable import fast_callable
from .prefetch._input_status import Buffer, InputStatus, ThreadActivity
from .queued._batch_queue_input import BatchQueueInput
from .queued._queue_input import QueueInput
from .staged._staging_input import StagingInput

__all__ = [
    "BatchQueueInput",
    "Buffer",
    "DatapointError",
    "DatapointShapeError",
    "DatapointStructureError",
    "DatapointTypeError",
    "DummyConstantInput",
    "EmptyFlowError",
    "FeedInput",
    "FlowEndError",
    "InputSource",
    "InputSourceError",
    "InputStatus",
    "NotRunningError",
    "PlaceholderInput",
    "ProxyInputSource",
    "QueueInput",
    "SetupError",
    "SpecError",
    "StagingError",
    "StagingInput",
    "TFDatasetInput",
    "TensorInput",
    "ThreadActivity",
    "fast_callable",
    "input_for",
    "remap_input_source",
]
