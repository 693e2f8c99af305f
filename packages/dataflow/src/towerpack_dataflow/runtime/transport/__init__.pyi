from ._captured_generators import warn_of_captured
from ._channel import Channel, PeerGoneError
from ._collected_datapoints import ColumnTable, from_table, to_table
from ._flow_pickle import WorkerPayload, dump_payload, load_payload
from ._large_copies import CopyThread, StagedRows, caches_are_bypassed
from ._remote_errors import WorkerTraceback, pack_error, unpack_error
from ._slots import SlotBlock, SlotPool, SlotReusePolicy

__all__ = [
    "Channel",
    "ColumnTable",
    "CopyThread",
    "PeerGoneError",
    "SlotBlock",
    "SlotPool",
    "SlotReusePolicy",
    "StagedRows",
    "WorkerPayload",
    "WorkerTraceback",
    "caches_are_bypassed",
    "dump_payload",
    "from_table",
    "load_payload",
    "pack_error",
    "to_table",
    "unpack_error",
    "warn_of_captured",
]
