"""Transport of datapoints, flows and errors between two processes."""

from ._captured_generators import warn_of_captured
from ._channel import Channel, PeerGoneError, ReceivedMessage
from ._collected_datapoints import (
    Collected,
    ColumnTable,
    DatapointList,
    QuickList,
    SteadyList,
    from_table,
    to_table,
)
from ._flow_pickle import WorkerPayload, dump_out_of_band, dump_payload, load_payload
from ._large_copies import (
    CopyThread,
    StagedRows,
    bypass_environment,
    caches_are_bypassed,
    environment_before,
    restore_environment,
)
from ._remote_errors import Failure, WorkerTraceback, pack_error, unpack_error
from ._slots import SlotBlock, SlotPool, SlotReusePolicy

__all__ = [
    "Channel",
    "Collected",
    "ColumnTable",
    "CopyThread",
    "DatapointList",
    "Failure",
    "PeerGoneError",
    "QuickList",
    "ReceivedMessage",
    "SlotBlock",
    "SlotPool",
    "SlotReusePolicy",
    "StagedRows",
    "SteadyList",
    "WorkerPayload",
    "WorkerTraceback",
    "bypass_environment",
    "caches_are_bypassed",
    "dump_out_of_band",
    "dump_payload",
    "environment_before",
    "from_table",
    "load_payload",
    "pack_error",
    "restore_environment",
    "to_table",
    "unpack_error",
    "warn_of_captured",
]
