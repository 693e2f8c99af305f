"""The base class of everything that records statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from ..callback import Callback

__all__ = ["Monitor"]


class Monitor(Callback):
    """Receives every statistic that is put. Override the methods for what you record.

    A monitor is a callback too; monitors come last in the order. One that buffers overrides `flush`, which is
    called after each epoch, at the end of the training, and when the state of the run is read: a
    checkpoint of step n promises that everything up to n is recorded, so that a run killed right after it
    resumes without a hole. A monitor with a `state_dict` of its own calls `flush` there.
    """

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        """Records one number."""

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        """Records a TensorFlow summary as a whole; its scalars come through `process_scalar`, too."""

    def process_message(self, text: str) -> None:
        """Records a line of text, such as where files go, that is for whoever watches the run."""

    def expect(self, headlines: Sequence[str]) -> None:
        """Is told, before the training, which statistics the callbacks of the run are about, in order."""

    def flush(self) -> None:
        """Returns when everything received is out of this process, or raises the error of its writing."""

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
            ValueError: the run has none.
        """
        if self.log_dir is None:
            raise ValueError(
                f"{self} writes files, but this run has no log directory. Give log_dir=, or leave {self} out."
            )
        return self.log_dir
