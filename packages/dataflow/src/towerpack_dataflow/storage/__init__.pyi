from ._atomic_file import create_file, create_path, locked_folder
from ._labelled_paths import LabelledPaths
from ._open_url import local_path, open_url
from ._printable_url import URL, as_url, is_local, printable
from ._shared_list import PackedList, SharedListPickle, dump_by_value, list_to_pickle, value_pickler
from ._shared_memory import aligned_memory, aligned_size, anonymous_file, mapped
from ._snapshots import snapshot
from ._stored_file import StoredFile, StoredStream
from ._url_cache import UrlCache

__all__ = [
    "URL",
    "LabelledPaths",
    "PackedList",
    "SharedListPickle",
    "StoredFile",
    "StoredStream",
    "UrlCache",
    "aligned_memory",
    "aligned_size",
    "anonymous_file",
    "as_url",
    "create_file",
    "create_path",
    "dump_by_value",
    "is_local",
    "list_to_pickle",
    "local_path",
    "locked_folder",
    "mapped",
    "open_url",
    "printable",
    "snapshot",
    "value_pickler",
]
