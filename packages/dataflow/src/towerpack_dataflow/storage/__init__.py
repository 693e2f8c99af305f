"""Memory: aligned, shared between processes, with long lists packed into it; snapshots of datapoints."""

from ._aligned_memory import aligned_memory, aligned_size
from ._shared_list import PackedList, SharedListPickle, list_to_pickle
from ._shared_memory import anonymous_file, mapped
from ._snapshots import snapshot
from ._stored_file import StoredFile, create_file, local_path, open_url

__all__ = [
    "PackedList",
    "SharedListPickle",
    "StoredFile",
    "aligned_memory",
    "aligned_size",
    "anonymous_file",
    "create_file",
    "list_to_pickle",
    "local_path",
    "mapped",
    "open_url",
    "snapshot",
]
