"""Stops a training when a statistic no longer improves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, final

from .._errors import StopTraining
from ..callback import Callback, StatisticWatch, check_choice, check_count, is_better

__all__ = ["EarlyStopping"]


@final
class EarlyStopping(Callback):
    """Stops the training when a statistic has not improved for a number of values.

    The best value and the count survive a restart. Use `MinSaver` or `MaxSaver` to keep the best weights.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        patience: the number of consecutive new values without improvement before the stop.
        min_delta: the minimum improvement over the best value.
        mode: "min" if lower is better, "max" if higher is.

    Raises:
        ValueError: an argument is invalid.

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
        check_count(f"EarlyStopping(patience={patience!r})", patience)
        if not min_delta >= 0:
            raise ValueError(f"EarlyStopping(min_delta={min_delta!r}): expected a number of at least 0.")
        check_choice(f"EarlyStopping(mode={mode!r})", mode, ("min", "max"))
        self._watch = StatisticWatch(monitor_stat)
        self._patience = patience
        self._min_delta = min_delta
        self._mode = mode
        self._best: float | None = None
        self._waited = 0

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _trigger(self) -> None:
        value = self._watch.next_value(self.trainer.monitors)
        if value is None:
            return
        if is_better(value, self._best, self._mode, self._min_delta):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            raise StopTraining(
                f"{self._watch.name} has not improved on {self._best} in its last {self._waited} values"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "waited": self._waited, "seen": self._watch.seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best, self._waited = state["best"], state["waited"]
        self._watch.seen_step = state["seen"]

    def __str__(self) -> str:
        return f"EarlyStopping({self._watch.name!r})"
