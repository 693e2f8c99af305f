"""`CacheStorage`: what a `CacheData` keeps its datapoints in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

__all__ = ["MISSING", "CacheStorage"]

MISSING: Final = object()
"""What a storage returns for a datapoint that it does not hold."""


class CacheStorage(Protocol):
    """Holds some of the datapoints of one pass, by their numbers. Any of them may be missing."""

    def open(self, identity: Mapping[str, Any]) -> None:
        """Prepares for reading and writing; called at the beginning of each pass.

        Args:
            identity: says which pass of which flow the datapoints are of, as JSON values. Datapoints of
                another one are never returned.
        """

    def length(self) -> int | None:
        """Returns the number of datapoints of the pass, if a pass was finished."""

    def get(self, index: int) -> Any:
        """Returns a datapoint that its receiver may change, or `MISSING`."""

    def put(self, index: int, datapoint: Any) -> None:
        """Takes a datapoint as it is now, or leaves it out if there is no room."""

    def finish(self, count: int) -> None:
        """Learns that the pass has ended, and how many datapoints it has."""
