"""Brings data into a TensorFlow graph, prefetched, for any session loop."""

from ._errors import (
    DatapointError,
    DatapointShapeError,
    DatapointStructureError,
    DatapointTypeError,
    EmptyFlowError,
    FlowEndError,
    FlowPreemptionError,
    InputSourceError,
    NotRunningError,
    SetupError,
    SpecError,
    StagingError,
)
from ._feed_input import FeedInput, PlaceholderInput
from ._input_for import input_for, memory_for, rollout_for, state_for
from ._proxy_source import ProxyInputSource, remap_input_source
from ._source import InputSource
from ._staging_input import StagingInput
from .in_graph._tensor_input import DummyConstantInput, TensorInput
from .in_graph._tfdata_input import TFDatasetInput
from .prefetch._flow_reader import RefittedState
from .prefetch._input_status import Buffer, InputStatus, ThreadActivity
from .prefetch._one_session import fast_callable
from .queued._batch_queue_input import BatchQueueInput
from .queued._queue_input import QueueInput, ZMQInput
from .queued._rollout_input import RolloutInput

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
    "FlowPreemptionError",
    "InputSource",
    "InputSourceError",
    "InputStatus",
    "NotRunningError",
    "PlaceholderInput",
    "ProxyInputSource",
    "QueueInput",
    "RefittedState",
    "RolloutInput",
    "SetupError",
    "SpecError",
    "StagingError",
    "StagingInput",
    "TFDatasetInput",
    "TensorInput",
    "ThreadActivity",
    "ZMQInput",
    "fast_callable",
    "input_for",
    "memory_for",
    "remap_input_source",
    "rollout_for",
    "state_for",
]
