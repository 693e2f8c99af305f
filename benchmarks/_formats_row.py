"""The rows of `formats.py`, and their common parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import _rounds
import numpy as np

LARGE, SMALL = 150_000, 1000  # bytes of a record: an image of 224 x 224 pixels, a sentence
COUNTS = {LARGE: _rounds.shorter(2000, 20), SMALL: _rounds.shorter(100_000, 200)}


@dataclass
class Row:
    """Two ways to read the same records.

    Attributes:
        what: is read, and in which order.
        library: the name of the other one.
        ours: records a second of ours.
        bare: records a second of the other one.
        least: what their ratio should be, if there is a target.
    """

    what: str
    library: str
    ours: Callable[[], float]
    bare: Callable[[], float]
    least: float | None = None


def per_second(make: Callable[[], Iterable[object]]) -> float:
    """Records a second of one pass, from the making of its iterator on."""
    count = 0
    begin = time.perf_counter()
    for _ in make():
        count += 1
    return count / (time.perf_counter() - begin)


def random_records(size: int) -> list[bytes]:
    """Records of random bytes, of one size; the large ones together as large as a small data set."""
    rng = np.random.default_rng(0)
    return [rng.bytes(size) for _ in range(COUNTS[size])]


def random_order(size: int) -> list[int]:
    """The order of a bare loop's random reads."""
    order: list[int] = np.random.default_rng(1).permutation(COUNTS[size]).tolist()
    return order
