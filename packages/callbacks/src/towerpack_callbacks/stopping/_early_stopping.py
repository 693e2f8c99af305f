"""Ends a training that no longer gets better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, final

from .._errors import StopTraining
from ..callback import Callback

__all__ = ["EarlyStopping"]


@final
class EarlyStopping(Callback):
    """Stops the training when a statistic has not got better for some time.

    The best value and the count survive a restart. The best weights are kept by `MinSaver` or `MaxSaver`.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        patience: how many new values may go by without getting better.
        min_delta: by how much a value must be better than the best one to count.
        mode: "min" if lower is better, "max" if higher is.

    Raises:
        ValueError: an argument is not as above.

    Example:
        ```python
        callbacks = [InferenceRunner(flow, ScalarStats("cost")), EarlyStopping("validation_cost", patience=5)]
        ```
    """

    def __init__(
        self,
        monitor_stat: str,
        patience: int,
        min_delta: float = 0.0,
        mode: Literal["min", "max"] = "min",
    ) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"EarlyStopping(patience={patience!r}): expected a whole number of at least 1.")
        if not min_delta >= 0:
            raise ValueError(f"EarlyStopping(min_delta={min_delta!r}): expected a number of at least 0.")
        if mode not in {"min", "max"}:
            raise ValueError(f'EarlyStopping(mode={mode!r}): expected "min" or "max".')
        self._stat = monitor_stat
        self._patience = patience
        self._min_delta = min_delta
        self._sign = 1 if mode == "max" else -1
        self._best: float | None = None
        self._waited = 0
        self._seen = -1

    def consumes(self) -> Sequence[str]:
        return [self._stat]

    def _trigger(self) -> None:
        monitors = self.trainer.monitors
        if self._stat not in monitors:
            return  # its period is longer than ours
        step, value = monitors.get_history(self._stat)[-1]
        if step == self._seen:
            return
        self._seen = step
        if self._is_better(value):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            raise StopTraining(
                f"{self._stat} has not got better than {self._best} in its last {self._waited} values"
            )

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        return self._best is None or self._sign * (value - self._best) > self._min_delta

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "waited": self._waited, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best, self._waited, self._seen = state["best"], state["waited"], state["seen"]

    def __str__(self) -> str:
        return f"EarlyStopping({self._stat!r})"
