"""The base class of everything that records statistics."""

from __future__ import annotations

from pathlib import Path

import tensorflow.compat.v1 as tf

from .._callback import Callback

__all__ = ["Monitor"]


class Monitor(Callback):
    """Receives every statistic that is put. Override what you record.

    A monitor is a callback too: it may flush in `_trigger_epoch`, as monitors come last in the order.
    """

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        """Records one number."""

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        """Records a TensorFlow summary as a whole; its scalars come through `process_scalar`, too."""

    def _directory(self) -> Path:
        if self.log_dir is None:
            raise ValueError(
                f"{self} writes files, but this run has no log directory. Give log_dir=, or leave {self} out."
            )
        return self.log_dir
