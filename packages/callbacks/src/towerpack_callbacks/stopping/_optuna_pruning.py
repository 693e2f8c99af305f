"""Lets Optuna prune unpromising trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from ..callback import Callback, StatisticWatch

__all__ = ["OptunaPruning"]


@final
class OptunaPruning(Callback):
    """Reports a statistic to a trial of Optuna, and ends the training when the trial's pruner requests it.

    The training ends as after an error of a callback: its threads and processes end, and `train()` raises
    `optuna.TrialPruned`, which a study counts as a pruned trial. Earlier checkpoints are kept. See Akiba et
    al., "Optuna: A Next-generation Hyperparameter Optimization Framework" (2019).

    Args:
        trial: an `optuna.trial.Trial`; give each training its own trial.
        monitor_stat: name of the statistic, which the study minimizes or maximizes; its producer must come
            before. Each value is reported once, with the epoch number.

    Raises:
        ImportError: (when a trial is to be pruned) the extra `[optuna]` is missing.
        TypeError: `trial` lacks `report` or `should_prune`.

    Example:
        ```python
        def objective(trial):
            rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
            callbacks = [InferenceRunner(flow, ScalarStats("cost")), OptunaPruning(trial, "validation_cost")]
            trainer = SimpleTrainer(TrainConfig(model=Model(rate), dataflow=data, callbacks=callbacks))
            trainer.train()
            return trainer.monitors.get_latest("validation_cost")
        ```
    """

    def __init__(self, trial: Any, monitor_stat: str) -> None:
        if not (hasattr(trial, "report") and hasattr(trial, "should_prune")):
            raise TypeError(
                f"OptunaPruning(trial=...) received {trial!r}; expected the optuna.trial.Trial that the "
                f"study gives to the objective."
            )
        self._trial = trial
        self._watch = StatisticWatch(monitor_stat)

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _trigger(self) -> None:
        value = self._watch.next_value(self.trainer.monitors)
        if value is None:
            return
        self._trial.report(value, self.epoch_num)
        if self._trial.should_prune():
            from optuna import TrialPruned

            said = "is not a number" if math.isnan(value) else f"is {value:.5g}"
            raise TrialPruned(f"{self._watch.name} {said} after epoch {self.epoch_num}")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._watch.seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._watch.seen_step = state["seen"]

    def __str__(self) -> str:
        return f"OptunaPruning({self._watch.name!r})"
