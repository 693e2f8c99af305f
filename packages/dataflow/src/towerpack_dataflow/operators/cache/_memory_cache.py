"""The interface of a storage for `CacheData`, and `MemoryCache`: stores datapoints in memory."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any, Final, Protocol, final

import numpy as np

from ... import _argument_checks as arguments
from ...flow._columns import assembled, datapoint_size
from ...storage import snapshot

__all__ = ["MISSING", "CacheStorage", "MemoryCache"]

MISSING: Final = object()
"""Returned by a storage for a datapoint that it does not hold."""


class CacheStorage(Protocol):
    """Holds some of the datapoints of one pass, by index. Any of them may be missing."""

    def open(self, identity: Mapping[str, Any]) -> None:
        """Prepares for reading and writing; called at the beginning of each pass.

        Args:
            identity: identifies the flow and the pass of the datapoints, as JSON values. Datapoints of
                another identity are never returned.
        """

    def length(self) -> int | None:
        """Returns the number of datapoints of the pass, if a pass was finished."""

    def get(self, index: int) -> Any:
        """Returns a datapoint that the caller may change, or `MISSING`."""

    def put(self, index: int, datapoint: Any) -> None:
        """Stores a datapoint in its current state, or skips it if there is no room."""

    def finish(self, count: int) -> None:
        """Marks the pass complete and stores its length."""


_FIXED = frozenset({int, float, bool, complex, str, bytes, type(None), range, type, object})


@final
class MemoryCache:
    """Stores the datapoints of a `CacheData` in the memory of this process.

    Mutable values are copied on their way out, so that no consumer can change the stored datapoints.

    Args:
        max_bytes: limit of the memory, counted by the sizes of arrays, strings and bytes; unlimited by
            default. Datapoints beyond it are made again in each pass.

    Raises:
        ArgumentError: `max_bytes` is not an integer above 0.

    Example:
        >>> from towerpack_dataflow import CacheData
        >>> flow = CacheData(range(3), storage=MemoryCache(max_bytes=2**20))
        >>> list(flow), list(flow)
        ([0, 1, 2], [0, 1, 2])
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        """Starts empty."""
        self.max_bytes = None if max_bytes is None else arguments.count("max_bytes", max_bytes)
        self._identity: Mapping[str, Any] | None = None
        self._datapoints: dict[int, Any] = {}
        self._bytes = 0
        self._length: int | None = None

    def open(self, identity: Mapping[str, Any]) -> None:
        """Drops the datapoints of another pass."""
        if identity != self._identity:
            self._datapoints, self._bytes, self._length = {}, 0, None
            self._identity = identity

    def length(self) -> int | None:
        """Returns the number of datapoints of the pass, if one was finished."""
        return self._length

    def get(self, index: int) -> Any:
        """Returns a copy of a datapoint, or `MISSING`."""
        return _copied(self._datapoints.get(index, MISSING))

    def put(self, index: int, datapoint: Any) -> None:
        """Stores a copy of a datapoint within the limit."""
        if self.max_bytes is not None:
            self._bytes += datapoint_size(datapoint)
            # From the first one without room on, none is kept: a stream is then made anew once, not in many
            # parts.
            if self._bytes > self.max_bytes:
                return
        self._datapoints[index] = snapshot(_copied(datapoint))

    def finish(self, count: int) -> None:
        """Stores the number of datapoints."""
        self._length = count

    def __repr__(self) -> str:
        return "MemoryCache()" if self.max_bytes is None else f"MemoryCache(max_bytes={self.max_bytes})"

    def __getstate__(self) -> dict[str, Any]:
        """A copy, such as that of a worker, starts empty."""
        return {"max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Starts empty."""
        self.__init__(**state)


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _FIXED:
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy()
    if kind is list:
        return [_copied(part) for part in value]
    if kind is dict:
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return assembled(kind, (), [_copied(part) for part in value])
    with contextlib.suppress(Exception):  # locks, files and connections cannot be copied
        return copy.deepcopy(value)
    return value
