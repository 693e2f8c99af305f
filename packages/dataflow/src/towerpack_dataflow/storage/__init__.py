"""Memory: aligned, shared between processes, with long lists packed into it; snapshots of datapoints."""

from ._aligned_memory import aligned_memory, aligned_size
from ._shared_list import PackedList, SharedListPickle, list_to_pickle
from ._shared_memory import anonymous_file, mapped
from ._snapshots import snapshot

__all__ = [
    "PackedList",
    "SharedListPickle",
    "aligned_memory",
    "aligned_size",
    "anonymous_file",
    "list_to_pickle",
    "mapped",
    "snapshot",
]
