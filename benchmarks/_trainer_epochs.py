"""Durations of a trainer's epochs; imports TensorFlow, which some processes set up first."""

from __future__ import annotations

import time

from towerpack_callbacks import Callback


class EpochTimes(Callback):
    """Notes the seconds of each epoch's steps: of the clock, and of the processor."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def _before_epoch(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def _after_epoch(self) -> None:
        wall, cpu = self._start
        self.seconds.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - cpu)


class EpochEnds(Callback):
    """Notes when epochs end, with the data of the next one made."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def _trigger_epoch(self) -> None:
        self.times.append(time.perf_counter())
