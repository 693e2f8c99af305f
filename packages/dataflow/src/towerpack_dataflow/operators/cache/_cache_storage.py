"""`CacheStorage`: the interface of a storage for `CacheData`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

__all__ = ["MISSING", "CacheStorage"]

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
