"""Size of a datapoint and format of durations, for measurements and their reports."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["datapoint_size", "duration"]

_NUMBER_BYTES = 8


def datapoint_size(value: Any) -> int:
    """Counts the bytes of a datapoint's values, without Python's overhead: a number counts for 8."""
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(map(datapoint_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(datapoint_size, value))
    return _NUMBER_BYTES


def duration(seconds: float) -> str:
    """Formats seconds as text, in ms or us.

    Example:
        >>> duration(0.0025), duration(3e-6)
        ('2.5 ms', '3.0 us')
    """
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} us"
