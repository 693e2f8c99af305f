"""Bring data into a TensorFlow graph, prefetched, for any session loop."""

from ._batch_queue import BatchQueueInput
from ._callable import fast_callable
from ._choose import input_for
from ._constant import DummyConstantInput
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
from ._feed import FeedInput
from ._placeholder import PlaceholderInput
from ._proxy import ProxyInputSource, remap_input_source
from ._queue import QueueInput
from ._source import InputSource
from ._staging import StagingInput
from ._status import Buffer, InputStatus, ThreadActivity
from ._tensor_input import TensorInput
from ._tfdata import TFDatasetInput

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
