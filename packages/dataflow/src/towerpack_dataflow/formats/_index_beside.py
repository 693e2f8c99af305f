"""The index of a file, which lies beside it and is used only if it is of that file."""

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
    """Reads `<file>.index`; returns `None` if there is none that can be used.

    An index of another version, or of a file that has been replaced since, is left alone, and logged. A file
    whose URL has a query, as a signed one has, is taken to have none.

    Args:
        file: the data file.
        url: of it, with credentials.
        parse: decodes an index; returns `None` for one of another version or data file.
        function: which writes such an index, as a call.
        cache: for an index elsewhere.

    Raises:
        FormatError: the index is damaged, as `parse` says.
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
            "%s.index is of another version, or of another file than %s is now; the file is read for it. "
            "%s writes it again",
            file.name,
            os.path.basename(file.name),
            function,
        )
    return index
