"""`MemoryLayout`: how many rows of which columns a memory has, within its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ._array_specs import ArraySpec
from ._segments import least_rows

__all__ = ["LINK_BYTES", "STARTED", "TERMINATED", "TRUNCATED", "MemoryLayout", "columns_of", "memory_layout"]

LINK_BYTES = 9  # of a row in `EpisodeLinks`
STARTED, TERMINATED, TRUNCATED = 1, 2, 4  # in "tag", below the number of the environment
_LARGEST = 2**26  # bytes of a segment: a checkpoint copies one
_SHARE = 16  # of a memory; one more segment than the capacity needs is kept


class MemoryLayout(NamedTuple):
    """The size of a memory.

    Attributes:
        columns: the arrays of a row by name.
        capacity: rows that are kept.
        segment_rows: rows of a segment.
        parts: segments.
        row_bytes: bytes of a row, with what is kept of it in memory of the process.
    """

    columns: dict[str, ArraySpec]
    capacity: int
    segment_rows: int
    parts: int
    row_bytes: int

    @property
    def slots(self) -> int:
        """Rows that there is room for."""
        return self.segment_rows * self.parts

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return self.slots * self.row_bytes

    def facts(self) -> dict[str, Any]:
        """Returns what must be the same for a state to fit, ready for JSON."""
        columns = {name: [list(spec.shape), spec.dtype.str] for name, spec in self.columns.items()}
        return {"columns": columns, "capacity": self.capacity, "segment rows": self.segment_rows}


def columns_of(observation: Mapping[str, ArraySpec], action: Mapping[str, ArraySpec]) -> dict[str, ArraySpec]:
    """Returns the arrays of a row."""
    return {
        **{f"observation.{key}": spec for key, spec in observation.items()},
        **{f"action.{key}": spec for key, spec in action.items()},
        "reward": ArraySpec((), np.dtype(np.float32)),
        "tag": ArraySpec((), np.dtype(np.int32)),
    }


def memory_layout(
    columns: dict[str, ArraySpec], capacity: int | None, max_bytes: int | None, extra: int
) -> MemoryLayout:
    """Finds the layout of a memory with at most so many rows and bytes.

    Args:
        columns: the arrays of a row.
        capacity: the most rows to keep; None for what `max_bytes` allows.
        max_bytes: the most bytes to take; None for no limit but `capacity`.
        extra: bytes of a row beside its columns.

    Raises:
        ArgumentError: there is no bound, or less room than for two segments.
    """
    if capacity is None and max_bytes is None:
        raise ArgumentError("a memory has a bound; received neither capacity nor max_bytes")
    least, stored = least_rows(columns), sum(spec.nbytes for spec in columns.values())
    rows = [] if capacity is None else [arguments.count("capacity", capacity, most=2**31 - 2**28)]
    if max_bytes is not None:
        rows.append(arguments.count("max_bytes", max_bytes) // (stored + extra))
    wanted = min(min(rows) // _SHARE, _LARGEST // stored)
    segment_rows = max(least, -(-wanted // least) * least)
    room = -(-rows[0] // segment_rows) + 1 if capacity is not None else rows[-1] // segment_rows
    parts = room if max_bytes is None else min(room, rows[-1] // segment_rows)
    if parts < 2:
        raise ArgumentError(
            f"max_bytes is at least {2 * segment_rows * (stored + extra)} for these observations, which "
            f"is two "
            f"segments; received {max_bytes}"
        )
    kept = (parts - 1) * segment_rows
    return MemoryLayout(columns, min(kept, capacity or kept), segment_rows, parts, stored + extra)
