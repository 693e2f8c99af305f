"""The common parts of all trainings of benchmarks/digits.py."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import _rounds
import numpy as np

BATCH, EPOCHS, STEPS = 32, 3, _rounds.shorter(300, 100)
WEIGHTS = 89_994


class Measured(NamedTuple):
    """The figures of one training.

    Attributes:
        whole: seconds from its construction to its end.
        rate: steps per second within its epochs.
        processor: milliseconds of processor time of a step, if measured.
    """

    whole: float
    rate: float
    processor: float | None = None


def timed_epochs(whole: float, seconds: list[float], processor: list[float], steps: int = STEPS) -> Measured:
    """Without the first epoch, in which graphs are pruned and functions traced."""
    done = steps * len(seconds[1:])
    return Measured(whole, done / sum(seconds[1:]), 1e3 * sum(processor[1:]) / done)


def timed(epoch: Callable[[], int], epochs: int) -> Measured:
    """Runs epochs, each of which returns its number of steps."""
    begin, seconds, processor = time.perf_counter(), [], []
    for _ in range(epochs):
        wall, cpu = time.perf_counter(), time.process_time()
        steps = epoch()
        seconds.append(time.perf_counter() - wall)
        processor.append(time.process_time() - cpu)
    return timed_epochs(time.perf_counter() - begin, seconds, processor, steps)


def examples() -> tuple[np.ndarray, np.ndarray]:
    """All images and labels, as arrays."""
    from towerpack_dataflow.datasets import Digits

    images, labels = zip(*Digits("train"))
    return np.stack(images), np.asarray(labels, np.int32)


def first_batch() -> list[np.ndarray]:
    """Some images and labels."""
    from towerpack_dataflow import BatchData
    from towerpack_dataflow.datasets import Digits

    return next(iter(BatchData(Digits("train"), BATCH)))


def lenet():
    """The example's model."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from digits_lenet import LeNet

    return LeNet()
