"""The common parts of the pipelines of `images.py`: their numbers, and the measurement of a pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import _rounds
import numpy as np
import psutil

BATCH, SIZE = 64, 224
BATCHES, SKIP = _rounds.shorter(24, 3), _rounds.shorter(6, 1)
COUNT = BATCH * BATCHES
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
JITTER = 0.4  # brightness, contrast and saturation are changed by a factor from 0.6 to 1.4
FACTORS = (1 - JITTER, 1 + JITTER)
# Of ImageNet, for values from 0 to 1.
MEAN, STD = np.asarray([0.485, 0.456, 0.406], np.float32), np.asarray([0.229, 0.224, 0.225], np.float32)

# Images a second, and milliseconds of the processors for each.
Figures = tuple[float, float]
Run = Callable[[], Figures]


def passes(make: Callable[[], Iterable[Any]]) -> Run:
    """Measures passes of a pipeline; each is finite, so that nothing runs while others are measured.

    Args:
        make: begins a pass of `BATCHES` batches, of which the first `SKIP` are not timed: in them workers
            start.
    """

    def run() -> Figures:
        begin = cpu = 0.0
        batches = iter(make())
        for number in range(BATCHES):
            if number == SKIP:
                begin, cpu = time.perf_counter(), cpu_seconds()
            check(next(batches))
        images = BATCH * (BATCHES - SKIP)
        figures = images / (time.perf_counter() - begin), 1e3 * (cpu_seconds() - cpu) / images
        assert next(batches, None) is None
        return figures

    return run


def check(batch: Any) -> None:
    """Checks that all pipelines give the same result: normalised float32 images."""
    array = np.asarray(batch)
    assert array.dtype == np.float32, array.dtype
    assert array.shape in {(BATCH, SIZE, SIZE, 3), (BATCH, 3, SIZE, SIZE)}, array.shape
    assert -3 < array[0].min() < array[0].max() < 3, (array[0].min(), array[0].max())


def cpu_seconds() -> float:
    """Of this process, of all that descend from it, and of those of them that have ended."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [me, *me.children(recursive=True)])
