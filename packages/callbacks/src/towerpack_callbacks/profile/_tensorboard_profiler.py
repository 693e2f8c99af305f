"""Profiles a few consecutive steps for TensorBoard."""

from __future__ import annotations

import logging
from typing import final

import tensorflow.compat.v1 as tf
from tensorflow import profiler

from ..callback import EVERY_STEP, Callback, Every, output_directory

__all__ = ["TensorBoardProfiler"]

_log = logging.getLogger("towerpack_callbacks")


@final
class TensorBoardProfiler(Callback):
    """Profiles some steps from `first_step` on, once, for the profile plugin of TensorBoard.

    It shows the ops on all devices, the host's threads and the time spent waiting for input. The files go to
    `plugins/profile` in the log directory; to view them, `pip install tensorboard-plugin-profile`.

    Args:
        first_step: number of the first step to profile, at least 2, since the very first step is not typical.
        steps: the number of steps.

    Raises:
        ValueError: a number is out of range; or (at set-up) the run has no log directory.
    """

    def __init__(self, first_step: int = 10, steps: int = 3) -> None:
        if first_step < 2 or steps < 1:
            raise ValueError(
                f"TensorBoardProfiler(first_step={first_step!r}, steps={steps!r}): expected a first step of "
                "at least 2, and at least one step."
            )
        self._first, self._last = first_step, first_step + steps - 1
        self._running = False

    def _setup_graph(self) -> None:
        self._dir = output_directory(self)

    def step_period(self) -> Every | None:
        return EVERY_STEP

    def _trigger_step(self) -> None:
        step = self.global_step
        if step == self._first - 1:
            self._start()
        elif self._running and step >= self._last:
            self._stop()

    def _after_train(self) -> None:
        self._stop()

    def _start(self) -> None:
        try:
            profiler.experimental.start(str(self._dir))
            self._running = True
        except tf.errors.AlreadyExistsError:
            _log.warning("%s: another profiler is already running in this process; not profiling.", self)

    def _stop(self) -> None:
        if self._running:
            self._running = False
            profiler.experimental.stop()
            _log.info("Profiled steps %d to %d: tensorboard --logdir %s", self._first, self._last, self._dir)
