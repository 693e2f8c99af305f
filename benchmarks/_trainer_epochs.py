"""Durations of a trainer's epochs; imports TensorFlow, which some processes set up first."""

from __future__ import annotations

import time

from towerpack_callbacks import Callback


class EpochTimes(Callback):
    """Notes the seconds of each epoch's steps."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def _before_epoch(self) -> None:
        self._start = time.perf_counter()

    def _after_epoch(self) -> None:
        self.seconds.append(time.perf_counter() - self._start)
