"""The common parts of all trainings of benchmarks/digits.py."""

from __future__ import annotations

import sys
from pathlib import Path

import _rounds
import numpy as np

BATCH, EPOCHS, STEPS = 32, 3, _rounds.shorter(300, 100)
WEIGHTS = 89_994

# Seconds of one training from its construction to its end, and steps per second within its epochs.
Measured = tuple[float, float]


def timed_epochs(seconds: list[float]) -> float:
    """Steps per second without the first epoch, in which graphs are pruned and functions traced."""
    return STEPS * len(seconds[1:]) / sum(seconds[1:])


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
