"""`MemoryLayout`: the columns and the number of rows of a memory, within its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ._array_specs import ArraySpec
from ._segments import least_rows

__all__ = ["LINK_BYTES", "STARTED", "TERMINATED", "TRUNCATED", "MemoryLayout", "columns_of", "memory_layout"]

LINK_BYTES = 9  # per row in `EpisodeLinks`
STARTED, TERMINATED, TRUNCATED = 1, 2, 4  # in "tag", below the number of the environment
_LARGEST = 2**26  # bytes of a segment: a checkpoint copies one
_SHARE = 16  # segments per memory; one more than the capacity needs is kept


class MemoryLayout(NamedTuple):
    """The size of a memory.

    Attributes:
        columns: the arrays of a row by name.
        capacity: number of rows to keep.
        segment_rows: number of rows in a segment.
        parts: number of segments.
        row_bytes: bytes of a row, including its part in the memory of the process.
    """

    columns: dict[str, ArraySpec]
    capacity: int
    segment_rows: int
    parts: int
    row_bytes: int

    @property
    def slots(self) -> int:
        """The number of rows with room."""
        return self.segment_rows * self.parts

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return self.slots * self.row_bytes

    def fingerprint(self) -> dict[str, Any]:
        """Returns the properties that a fitting state must share, ready for JSON."""
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
    """Returns the layout of a memory within limits of rows and bytes.

    Args:
        columns: the arrays of a row.
        capacity: limit of rows; None for the limit of `max_bytes`.
        max_bytes: limit of bytes; None for no limit besides `capacity`.
        extra: bytes of a row besides its columns.

    Raises:
        ArgumentError: there is no limit, or not enough room for two segments.
    """
    if capacity is None and max_bytes is None:
        raise ArgumentError("a memory needs a limit; received neither capacity nor max_bytes")
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
