"""The index of a file, stored next to it and used only if it matches the file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from ..storage import StoredFile, UrlCache, is_local, open_url

__all__ = ["read_index_beside"]

_log = logging.getLogger("towerpack_dataflow")

_Index = TypeVar("_Index")


def read_index_beside(
    file: StoredFile,
    url: str,
    parse: Callable[[StoredFile], _Index | None],
    function: str,
    cache: UrlCache | None = None,
) -> _Index | None:
    """Reads `<file>.index`; returns `None` without a usable index.

    An index of another version, or of an earlier state of the file, is ignored and logged. A file with a
    query in its URL, such as a signed one, is assumed to have none.

    Args:
        file: the data file.
        url: URL of the file, with credentials.
        parse: decodes an index; returns `None` for another version or data file.
        function: the call that writes such an index.
        cache: cache for a remote index.

    Raises:
        FormatError: `parse` finds the index damaged.
        StorageError: the index cannot be reached.
    """
    if not is_local(url) and "?" in url:
        return None
    try:
        with open_url(f"{url}.index", cache) as stored:
            index = parse(stored)
    except (FileNotFoundError, PermissionError):
        return None
    if index is None:
        _log.warning(
            "The index %s.index is outdated, or has another version; scanning %s instead. Rebuild it with %s",
            file.name,
            os.path.basename(file.name),
            function,
        )
    return index
