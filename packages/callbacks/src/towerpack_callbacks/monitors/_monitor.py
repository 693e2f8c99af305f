"""The base class of monitors, which record statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from ..callback import Callback

__all__ = ["Monitor"]


class Monitor(Callback):
    """Receives all statistics. Override the methods for the kinds that you record.

    A monitor is also a callback; monitors come last in the order. A buffering monitor overrides `flush`,
    which is called after each epoch, at the end of the training, and when the state of the run is read: a
    checkpoint of step n guarantees that everything up to step n is recorded, so that a run killed right after
    it resumes without a gap. A monitor that overrides `state_dict` calls `flush` in it.
    """

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        """Records one number."""

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        """Records a TensorFlow summary as a whole; its scalars are also passed to `process_scalar`."""

    def process_message(self, text: str) -> None:
        """Records a line of text for the user, such as the path of a file."""

    def expect(self, headlines: Sequence[str]) -> None:
        """Receives the names of the callbacks' headline statistics, in order, before the training."""

    def flush(self) -> None:
        """Waits until all received data have left this process, or raises the error of writing them."""

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return {}

    def _trigger(self) -> None:
        self.flush()

    def _after_train(self) -> None:
        self.flush()

    def _directory(self) -> Path:
        """Returns the run's directory.

        Raises:
            ValueError: the run has no directory.
        """
        if self.log_dir is None:
            raise ValueError(
                f"{self} writes files, but this run has no log directory. Give log_dir=, or remove {self}."
            )
        return self.log_dir
