"""Lets another callback act at other times than it would by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import PeriodError
from ..callback import EVERY_STEP, Callback, Every, ProxyCallback, StepFetch, Ticker, as_every

__all__ = ["EnableCallbackIf", "PeriodicCallback", "PeriodicTrigger"]


@final
class PeriodicTrigger(ProxyCallback):
    """Calls `callback.trigger()` at a period of its own, instead of once each epoch.

    All other methods of the callback are left as they are. Periods may be combined; what is due twice at one
    step is triggered once.

    Args:
        callback: the callback to trigger.
        every_k_steps: trigger when `global_step` is a multiple of this.
        every_k_epochs: trigger after epochs whose number is a multiple of this.
        before_train: trigger once before the first step, too.
        every: a period as an `Every` or a string, such as "10 min".

    Raises:
        PeriodError: no period was given, or not a positive whole number.

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
        # A callback that watches steps by itself goes on doing so.
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
        self.callback._before_train()
        own = self.callback.step_period()
        self._own = None if own is None else Ticker(own)
        for ticker in self._within:
            ticker.restart()
        if self._at_start:
            self.callback.trigger()
            self.callback._after_triggers()

    def _trigger_step(self) -> None:
        # With one period alone, the loop has asked it already; a second Ticker of seconds would disagree.
        alone = len(self._within) + (self._own is not None) == 1
        if self._own is not None and (alone or self._due(self._own)):
            self.callback._trigger_step()
        due = [self._due(ticker) for ticker in self._within]  # all are asked, so that each remembers
        if self._within and (alone or any(due)):
            self._triggered_at = self.global_step
            self.callback.trigger()

    def _trigger_epoch(self) -> None:
        # Once is enough where a step and an epoch are due together.
        loop = self.trainer.loop
        due = any(every.due(loop.global_step, loop.epoch_num, loop.is_last_step) for every in self._epochs)
        if due and self._triggered_at != loop.global_step:
            self.callback.trigger()

    def _due(self, ticker: Ticker) -> bool:
        loop = self.trainer.loop
        return ticker.due(loop.global_step, loop.epoch_num, loop.is_last_step)


class _Gate(ProxyCallback):
    """Lets a callback act only while a condition holds, but always set up, begin and end.

    What the callback fetches with the step is asked for anew at each step, so that nothing is fetched or run
    while the condition does not hold.
    """

    def _is_open(self) -> bool:
        """Whether the callback may act now."""
        raise NotImplementedError

    def setup_graph(self, trainer: Any) -> None:
        super().setup_graph(trainer)
        self._fetches = [(fetch, Ticker(fetch.every)) for fetch in self.callback.step_fetches()]
        self._asks = self.callback.overrides("_before_run") or self.callback.overrides("_after_run")
        self._let_through = False
        self._due: list[StepFetch] = []

    def step_fetches(self) -> Sequence[StepFetch]:
        return ()

    def overrides(self, method: str) -> bool:
        if method in {"_before_run", "_after_run"}:
            return self._asks or bool(self._fetches)
        return super().overrides(method)

    def _before_run(self, context: Any) -> Any:
        self._let_through = self._is_open()
        if not self._let_through:
            return None
        loop = self.trainer.loop
        self._due = [
            fetch
            for fetch, ticker in self._fetches
            if ticker.due(loop.global_step + 1, loop.epoch_num, loop.is_last_step)
        ]
        asked = self.callback._before_run(context) if self._asks else None
        if not isinstance(asked, tf.train.SessionRunArgs):
            asked = tf.train.SessionRunArgs([] if asked is None else asked)
        own = [] if asked.fetches is None else asked.fetches
        return tf.train.SessionRunArgs(
            [[fetch.fetches for fetch in self._due], own], asked.feed_dict, asked.options
        )

    def _after_run(self, context: Any, run_values: Any) -> None:
        if not self._let_through:
            return
        due, own = run_values.results
        for fetch, value in zip(self._due, due):
            if fetch.receive is not None:
                fetch.receive(value)
        if self._asks:
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
class EnableCallbackIf(_Gate):
    """Lets a callback act only while a condition holds.

    The condition is asked before a step's run and holds for what is fetched then; it is asked anew before
    `_trigger_step`, and around epochs. `_setup_graph`, `_before_train` and `_after_train` always run. What a
    gated callback fetches with steps costs every step the time of a dynamic fetch.

    Args:
        callback: the callback.
        predicate: takes this object, and with it `global_step`, `epoch_num`, `trainer`; says whether the
            callback may act.

    Raises:
        TypeError: the predicate cannot be called.

    Example:
        ```python
        EnableCallbackIf(InferenceRunner(flow, ScalarStats("cost")), lambda gate: gate.epoch_num > 10)
        ```
    """

    def __init__(self, callback: Callback, predicate: Callable[[EnableCallbackIf], bool]) -> None:
        super().__init__(callback)
        if not callable(predicate):
            raise TypeError(
                f"EnableCallbackIf takes a function of one argument as its predicate, received {predicate!r}."
            )
        self._predicate = predicate

    def _is_open(self) -> bool:
        return bool(self._predicate(self))


@final
class PeriodicCallback(_Gate):
    """Lets a callback act only at some steps, or in some epochs; never more often than by itself.

    With `every_k_epochs`, the callback acts during whole epochs, and in the last one of the training, too.

    Args:
        callback: the callback.
        every_k_steps: act at steps whose number is a multiple of this.
        every_k_epochs: act in epochs whose number is a multiple of this.

    Raises:
        PeriodError: not exactly one period was given, or it is not a positive whole number.

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
