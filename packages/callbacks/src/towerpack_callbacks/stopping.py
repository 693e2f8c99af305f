"""Callbacks that stop a training: by a statistic, an amount, a step's duration, or Optuna."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, Literal, final

import tensorflow.compat.v1 as tf

from ._errors import StopTraining
from .callback._callback import Callback
from .callback._every import Every, as_every, check_choice, check_count
from .callback._trainer_protocol import StatisticWatch, is_better

__all__ = [
    "CollapseAlarm",
    "EarlyStopping",
    "OptunaPruning",
    "SessionRunTimeout",
    "StopAfter",
    "StopAtCollapse",
]

_log = logging.getLogger("towerpack_callbacks")


class _StatisticReader(Callback):
    """Takes each new value of a statistic once; subclasses define the reaction."""

    def __init__(self, monitor_stat: str) -> None:
        self._watch = StatisticWatch(monitor_stat)

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _trigger(self) -> None:
        value = self._watch.next_value(self.trainer.monitors)
        if value is not None:
            self._take(value)

    def _take(self, value: float) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._watch.seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._watch.seen_step = state["seen"]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._watch.name!r})"


@final
class EarlyStopping(_StatisticReader):
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
        super().__init__(monitor_stat)
        self._patience = patience
        self._min_delta = min_delta
        self._mode = mode
        self._best: float | None = None
        self._waited = 0

    def _take(self, value: float) -> None:
        if is_better(value, self._best, self._mode, self._min_delta):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            raise StopTraining(
                f"{self._watch.name} has not improved on {self._best} in its last {self._waited} values"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "waited": self._waited, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._best, self._waited = state["best"], state["waited"]


@final
class StopAfter(Callback):
    """Ends the training after a number of steps, epochs, seconds or environment steps.

    The number applies to the whole training: a resumed run that has already reached it runs no step. Only
    seconds count from the start of this run. All triggers due at that step run first: a saver with the same
    period writes the last state.

    Args:
        amount: the limit, as an `Every` or a string.

    Raises:
        PeriodError: the amount is not a valid period.

    Example:
        ```python
        callbacks = [PeriodicTrigger(ModelSaver(), every="50000 env_steps"), StopAfter("1000000 env_steps")]
        ```
    """

    def __init__(self, amount: Every | str) -> None:
        self._amount = as_every(amount)

    def step_period(self) -> Every | None:
        return self._amount if self._amount.epochs is None else None

    def epoch_period(self) -> Every | None:
        return self._amount if self._amount.epochs is not None else None

    def _before_train(self) -> None:
        # A new or resumed run has finished the epochs before `epoch_num + 1`.
        self._stop_if_done()

    def _trigger_step(self) -> None:
        if self._amount.seconds is not None:
            raise StopTraining(f"the limit of {self} is reached")
        self._stop_if_done()

    def _trigger_epoch(self) -> None:
        if self._amount.epochs is not None:
            self._stop_if_done()

    def _stop_if_done(self) -> None:
        amount = self._amount
        pairs = (
            (amount.steps, self.global_step),
            (amount.epochs, self.epoch_num),
            (amount.env_steps, self.env_steps),
        )
        if any(limit is not None and done >= limit for limit, done in pairs):
            raise StopTraining(f"the limit of {self} is reached")

    def __str__(self) -> str:
        return f"StopAfter({str(self._amount).removeprefix('every ')!r})"


@final
class SessionRunTimeout(Callback):
    """Ends the training with `tf.errors.DeadlineExceededError` when a step exceeds a time limit.

    Use it to detect steps that wait forever for data or for another process. It passes options to each
    session call, which adds a small cost to each step. For a limit without this cost, give the session
    `tf.ConfigProto(operation_timeout_in_ms=...)`, which also applies to evaluations and predictions.

    Args:
        timeout_in_ms: the maximum duration of a step, in milliseconds.

    Raises:
        ValueError: `timeout_in_ms` is not a positive whole number.

    Example:
        >>> callbacks = [SessionRunTimeout(60_000)]
    """

    chief_only = False

    def __init__(self, timeout_in_ms: int) -> None:
        check_count(f"SessionRunTimeout(timeout_in_ms={timeout_in_ms!r})", timeout_in_ms)
        self._args = tf.train.SessionRunArgs([], options=tf.RunOptions(timeout_in_ms=timeout_in_ms))

    def _before_run(self, context: Any) -> Any:
        return self._args


class _LimitWatch(_StatisticReader):
    """Counts consecutive values of a statistic beyond a limit; subclasses define the reaction."""

    def __init__(
        self,
        monitor_stat: str,
        below: float | None = None,
        above: float | None = None,
        patience: int = 3,
    ) -> None:
        shown = type(self).__name__
        if (below is None) == (above is None):
            raise ValueError(
                f"{shown}(below={below!r}, above={above!r}): expected a number for exactly one of them."
            )
        check_count(f"{shown}(patience={patience!r})", patience)
        super().__init__(monitor_stat)
        self._below, self._above = below, above
        self._patience = patience
        self._count = 0

    def _take(self, value: float) -> None:
        self._count = 0 if self._is_within(value) else self._count + 1
        if self._count >= self._patience:
            limit = f"above {self._above}" if self._below is None else f"below {self._below}"
            self._act(f"{self._watch.name} is {value:.4g}, and was {limit} in its last {self._count} values")

    def _is_within(self, value: float) -> bool:
        # NaN compares as False, so it is beyond every limit.
        low = -float("inf") if self._below is None else self._below
        high = float("inf") if self._above is None else self._above
        return low <= value <= high

    def _act(self, event: str) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._count = state["count"]


@final
class CollapseAlarm(_LimitWatch):
    """Warns that a GAN has probably collapsed when a statistic stays beyond a limit.

    Two statistics are useful: the variance of generated samples over a batch (`BatchVariance`), which falls
    when all random inputs give the same output; and the discriminator's accuracy, which stays at 1 when the
    generator can no longer improve. The callback warns once, and again after values within the limit.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        below: warn when values stay below this.
        above: warn when values stay above this; give exactly one of `below` and `above`.
        patience: the number of consecutive values beyond the limit. NaN also counts as beyond.

    Raises:
        ValueError: an argument is invalid.

    Example:
        ```python
        callbacks = [BatchVariance("gen/out"), CollapseAlarm("gen/out_variance", below=0.01)]
        ```
    """

    def _act(self, event: str) -> None:
        if self._count == self._patience:
            _log.warning("The GAN seems to have collapsed: %s.", event)


@final
class StopAtCollapse(_LimitWatch):
    """Ends the training when a GAN has probably collapsed; otherwise like `CollapseAlarm`.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        below: stop when values stay below this.
        above: stop when values stay above this; give exactly one of `below` and `above`.
        patience: how many values in a row must be beyond the limit.

    Raises:
        ValueError: an argument is invalid.

    Example:
        ```python
        StopAtCollapse("discriminator_accuracy", above=0.99, patience=10)
        ```
    """

    def _act(self, event: str) -> None:
        raise StopTraining(f"the GAN seems to have collapsed: {event}")


@final
class OptunaPruning(_StatisticReader):
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
        super().__init__(monitor_stat)
        self._trial = trial

    def _take(self, value: float) -> None:
        self._trial.report(value, self.epoch_num)
        if self._trial.should_prune():
            from optuna import TrialPruned

            said = "is not a number" if math.isnan(value) else f"is {value:.5g}"
            raise TrialPruned(f"{self._watch.name} {said} after epoch {self.epoch_num}")
