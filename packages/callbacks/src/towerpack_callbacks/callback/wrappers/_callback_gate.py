"""Wrappers that restrict a callback to some steps or epochs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._callback import Callback
from .._due_schedule import Ticker
from .._every import Every
from .._proxy_callback import ProxyCallback
from .._step_fetch import StepFetch

__all__ = ["EnableCallbackIf", "PeriodicCallback"]


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
        if not callable(predicate):
            raise TypeError(
                f"EnableCallbackIf takes a function of one argument as its predicate, received {predicate!r}."
            )
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
