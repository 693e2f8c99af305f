"""Callbacks that wrap another callback, and change when it acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import PeriodError
from ._callback import Callback, StepFetch, is_replaced
from ._every import EVERY_STEP, Every, Ticker, as_every, check_function
from ._trainer_protocol import TrainerProtocol, load_state_of, state_of

__all__ = ["EnableCallbackIf", "PeriodicCallback", "PeriodicTrigger", "ProxyCallback"]


class ProxyCallback(Callback):
    """Forwards all calls to another callback; base class of wrappers that change one aspect.

    Args:
        callback: the callback to wrap.

    Raises:
        TypeError: `callback` is not a `Callback`.

    Example:
        >>> from towerpack_callbacks import ModelSaver
        >>> class Chatty(ProxyCallback):
        ...     def _trigger(self):
        ...         super()._trigger()
        ...         print("saved")
        >>> callbacks = [Chatty(ModelSaver())]
    """

    def __init__(self, callback: Callback) -> None:
        if not isinstance(callback, Callback):
            raise TypeError(f"{type(self).__name__} wraps a Callback, received {callback!r}.")
        self.callback = callback
        self.chief_only = callback.chief_only

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        self._trainer = trainer
        self.callback.setup_graph(trainer)
        self._forget_earlier_run()

    def _before_train(self) -> None:
        self.callback._before_train()

    def _before_epoch(self) -> None:
        self.callback._before_epoch()

    def _before_run(self, context: Any) -> Any:
        return self.callback._before_run(context)

    def _after_run(self, context: Any, run_values: Any) -> None:
        self.callback._after_run(context, run_values)

    def _trigger_step(self) -> None:
        self.callback._trigger_step()

    def _after_epoch(self) -> None:
        self.callback._after_epoch()

    def _trigger_epoch(self) -> None:
        self.callback._trigger_epoch()

    def _trigger(self) -> None:
        self.callback._trigger()

    def _after_triggers(self) -> None:
        self.callback._after_triggers()

    def _after_train(self) -> None:
        self.callback._after_train()

    def step_fetches(self) -> Sequence[StepFetch]:
        return self.callback.step_fetches()

    def step_period(self) -> Every | None:
        return self.callback.step_period()

    def epoch_period(self) -> Every | None:
        return self.callback.epoch_period()

    def produces(self) -> Sequence[str]:
        return self.callback.produces()

    def produces_in_run(self) -> Sequence[str]:
        return self.callback.produces_in_run()

    def headlines(self) -> Sequence[str]:
        return self.callback.headlines()

    def consumes(self) -> Sequence[str]:
        return self.callback.consumes()

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.callback)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_state_of(self.callback, state)

    def save_files(self, directory: Path) -> None:
        self.callback.save_files(directory)

    def load_files(self, directory: Path) -> None:
        self.callback.load_files(directory)

    def overrides(self, method: str) -> bool:
        return is_replaced(self, ProxyCallback, method) or self.callback.overrides(method)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.callback})"


@final
class PeriodicTrigger(ProxyCallback):
    """Calls `callback.trigger()` at a given period, instead of once each epoch.

    All other methods of the callback are unchanged. Periods may be combined; at a step where several are due,
    the callback is triggered once.

    Args:
        callback: the callback to trigger.
        every_k_steps: trigger when `global_step` is a multiple of this.
        every_k_epochs: trigger after epochs that are multiples of this number.
        before_train: also trigger once before the first step.
        every: a period as an `Every` or a string, such as "10 min".

    Raises:
        PeriodError: no period is given, or a period is not a positive whole number.

    Example:
        ```python
        PeriodicTrigger(ModelSaver(), every_k_steps=1000)
        PeriodicTrigger(ModelSaver(), every="10 min")
        ```
    """

    def __init__(
        self,
        callback: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
        every: Every | str | None = None,
    ) -> None:
        super().__init__(callback)
        periods = [] if every is None else [as_every(every)]
        if every_k_steps is not None:
            periods.append(Every(steps=every_k_steps))
        if every_k_epochs is not None:
            periods.append(Every(epochs=every_k_epochs))
        if not periods and not before_train:
            raise PeriodError(
                f"PeriodicTrigger({callback}) was given no period. "
                "Give every_k_steps, every_k_epochs, every, or before_train=True."
            )
        self._within = [Ticker(period) for period in periods if period.epochs is None]
        self._epochs = [period for period in periods if period.epochs is not None]
        self._at_start = before_train
        self._own: Ticker | None = None
        self._triggered_at: int | None = None

    def step_period(self) -> Every | None:
        # A callback with a step period keeps it.
        wanted = [ticker.every for ticker in self._within]
        own = self.callback.step_period()
        if own is not None:
            wanted.append(own)
        if not wanted:
            return None
        return wanted[0] if len(wanted) == 1 else EVERY_STEP

    def epoch_period(self) -> Every | None:
        return self._epochs[0] if self._epochs else None

    def _before_train(self) -> None:
        self._triggered_at = None
        self.callback._before_train()
        own = self.callback.step_period()
        self._own = None if own is None else Ticker(own)
        for ticker in self._within:
            ticker.restart()
        if self._at_start:
            self.callback.trigger()
            self.callback._after_triggers()

    def _trigger_step(self) -> None:
        # The loop has already checked a single period; a second Ticker for seconds would disagree with it.
        alone = len(self._within) + (self._own is not None) == 1
        if self._own is not None and (alone or self._due(self._own)):
            self.callback._trigger_step()
        # Check all of them, so that each Ticker stays current.
        due = [self._due(ticker) for ticker in self._within]
        if self._within and (alone or any(due)):
            self._triggered_at = self.global_step
            self.callback.trigger()

    def _trigger_epoch(self) -> None:
        # Trigger only once if a step and an epoch are due together.
        loop = self.trainer.loop
        due = any(every.due(loop.global_step, loop.epoch_num, loop.is_last_step) for every in self._epochs)
        if due and self._triggered_at != loop.global_step:
            self.callback.trigger()

    def _due(self, ticker: Ticker) -> bool:
        loop = self.trainer.loop
        now = loop.global_step, loop.epoch_num, loop.is_last_step
        return ticker.due(*now, env_steps=loop.env_steps_passed)


class _CallbackGate(ProxyCallback):
    """Lets a callback act only while a condition holds. Set-up, begin and end always run.

    The callback's fetches are chosen at each step, so that nothing is fetched or run while the condition does
    not hold.
    """

    def _is_open(self) -> bool:
        """Returns whether the callback may act now."""
        raise NotImplementedError

    def setup_graph(self, trainer: Any) -> None:
        super().setup_graph(trainer)
        self._fetches = [(fetch, Ticker(fetch.every)) for fetch in self.callback.step_fetches()]
        self._is_dynamic = self.callback.overrides("_before_run") or self.callback.overrides("_after_run")
        self._let_through = False
        self._due: list[StepFetch] = []

    def step_fetches(self) -> Sequence[StepFetch]:
        return ()

    def overrides(self, method: str) -> bool:
        if method in {"_before_run", "_after_run"}:
            return self._is_dynamic or bool(self._fetches)
        return super().overrides(method)

    def _before_run(self, context: Any) -> Any:
        self._let_through = self._is_open()
        if not self._let_through:
            return None
        loop = self.trainer.loop
        now, acted = (loop.global_step + 1, loop.epoch_num, loop.is_last_step), loop.env_steps_passed
        self._due = [fetch for fetch, ticker in self._fetches if ticker.due(*now, env_steps=acted)]
        args = self.callback._before_run(context) if self._is_dynamic else None
        if not isinstance(args, tf.train.SessionRunArgs):
            args = tf.train.SessionRunArgs([] if args is None else args)
        own = [] if args.fetches is None else args.fetches
        return tf.train.SessionRunArgs(
            [[fetch.fetches for fetch in self._due], own], args.feed_dict, args.options
        )

    def _after_run(self, context: Any, run_values: Any) -> None:
        if not self._let_through:
            return
        due, own = run_values.results
        for fetch, value in zip(self._due, due):
            if fetch.receive is not None:
                fetch.receive(value)
        if self._is_dynamic:
            values = tf.train.SessionRunValues(own, run_values.options, run_values.run_metadata)
            self.callback._after_run(context, values)

    def _before_epoch(self) -> None:
        if self._is_open():
            self.callback._before_epoch()

    def _trigger_step(self) -> None:
        if self._is_open():
            self.callback._trigger_step()

    def _after_epoch(self) -> None:
        if self._is_open():
            self.callback._after_epoch()

    def _trigger_epoch(self) -> None:
        if self._is_open():
            self.callback._trigger_epoch()


@final
class EnableCallbackIf(_CallbackGate):
    """Lets a callback act only while a condition holds.

    The condition is evaluated before a step's run and holds for the fetches of that step; it is evaluated
    again before `_trigger_step`, and before and after epochs. `_setup_graph`, `_before_train` and
    `_after_train` always run. Fetches of a gated callback add the cost of a dynamic fetch to every step.

    Args:
        callback: the callback.
        predicate: takes this object, which gives access to `global_step`, `epoch_num` and `trainer`; returns
            whether the callback may act.

    Raises:
        TypeError: the predicate is not callable.

    Example:
        ```python
        EnableCallbackIf(InferenceRunner(flow, ScalarStats("cost")), lambda gate: gate.epoch_num > 10)
        ```
    """

    def __init__(self, callback: Callback, predicate: Callable[[EnableCallbackIf], bool]) -> None:
        super().__init__(callback)
        check_function("EnableCallbackIf takes a function of one argument as its predicate", predicate)
        self._predicate = predicate

    def _is_open(self) -> bool:
        return bool(self._predicate(self))


@final
class PeriodicCallback(_CallbackGate):
    """Lets a callback act only at some steps or in some epochs; never more often than without the wrapper.

    With `every_k_epochs`, the callback acts during whole epochs, and also in the last one of the training.

    Args:
        callback: the callback.
        every_k_steps: act at steps that are multiples of this number.
        every_k_epochs: act in epochs that are multiples of this number.

    Raises:
        PeriodError: not exactly one period is given, or the period is not a positive whole number.

    Example:
        ```python
        PeriodicCallback(ModelSaver(), every_k_epochs=5)
        ```
    """

    def __init__(
        self, callback: Callback, every_k_steps: int | None = None, every_k_epochs: int | None = None
    ) -> None:
        super().__init__(callback)
        self._every = Every(steps=every_k_steps, epochs=every_k_epochs)
        self._running = False

    def _is_open(self) -> bool:
        loop = self.trainer.loop
        if self._every.epochs is not None:
            return loop.epoch_num % self._every.epochs == 0 or loop.epoch_num == loop.max_epoch
        return self._every.due(loop.global_step + self._running, loop.epoch_num, loop.is_last_step)

    def _before_run(self, context: Any) -> Any:
        # global_step counts this step once its run is over.
        self._running = True
        try:
            return super()._before_run(context)
        finally:
            self._running = False
