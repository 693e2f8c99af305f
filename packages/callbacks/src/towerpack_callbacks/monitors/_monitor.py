"""The base class of monitors, and the row of statistics of one step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import tensorflow.compat.v1 as tf

from ..callback import Callback

__all__ = ["COUNTERS", "Monitor", "Row", "StepRow"]


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


# A row starts with these, so no statistic can have their names.
COUNTERS = ("epoch_num", "global_step", "env_steps")

Row: TypeAlias = dict[str, float | int]


@final
class StepRow:
    """The statistics of the current step; the row is finished when a later step puts a statistic.

    A row starts with `epoch_num` and `global_step`, and `env_steps` if it is not 0. The last value of a name
    counts.
    """

    def __init__(self) -> None:
        self._row: Row = {}

    def add(
        self, name: str, value: float, epoch_num: int, global_step: int, env_steps: int = 0
    ) -> Row | None:
        """Adds a value; returns the row of an earlier step if this value ends it."""
        finished = self.take_before(global_step)
        if not self._row:
            self._row = {"epoch_num": epoch_num, "global_step": global_step}
            if env_steps:
                self._row["env_steps"] = env_steps
        self._row[name] = value
        return finished

    def take(self) -> Row | None:
        """Returns the row and starts another; None if the row is empty."""
        row, self._row = self._row, {}
        return row or None

    def take_before(self, global_step: int) -> Row | None:
        """Returns the row and starts another if the row belongs to a different step; else None."""
        return self.take() if self._row and self._row["global_step"] != global_step else None

    def last_recorded_step(self, global_step: int) -> int:
        """Returns the step up to which files are complete, for a run that continues after `global_step`."""
        return int(self._row["global_step"]) - 1 if self._row else global_step

    def state_dict(self) -> dict[str, Any]:
        """Returns the unfinished row, if any: a checkpoint may be made before the row is written."""
        return {"row": dict(self._row)} if self._row else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with the row of `state`."""
        self._row = dict(state.get("row", {}))
