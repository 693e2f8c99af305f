"""Collects the statistics of one step in one row."""

from __future__ import annotations

from typing import Any, TypeAlias, final

__all__ = ["COUNTERS", "Row", "StepRow"]

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
