"""All callbacks of one run, as the loop drives them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from ._callback import Callback, StepFetch
from ._errors import CallbackStateError, CheckpointError, StopTraining
from ._order import check_statistics
from ._period import Schedule
from ._protocol import TrainerProtocol

__all__ = ["Callbacks"]

_log = logging.getLogger("towerpack_callbacks")


class Callbacks:
    """A list of callbacks that a loop calls as one; `Callback` draws that loop.

    A loop of your own drives it like this (what `towerpack_trainers` and `as_session_hooks` do):

    ```
    callbacks.setup_graph(trainer)
    ... session ...
    callbacks.before_train()
    each epoch: callbacks.before_epoch()
        each step:
            due = callbacks.due_fetches(loop)            # StepFetch objects
            args = callbacks.before_run(context)         # SessionRunArgs, one per dynamic callback
            ... one session call fetches the step, due and args; global_step += 1 ...
            callbacks.receive(due, values); callbacks.after_run(context, values)
            callbacks.trigger_step(loop)
        callbacks.after_epoch(); callbacks.trigger_epoch()
    callbacks.after_train()
    ```

    Args:
        callbacks: the callbacks in their order; a nested `Callbacks` is flattened.

    Raises:
        TypeError: an element is no callback.
    """

    def __init__(self, callbacks: Iterable[Callback | Callbacks]) -> None:
        self._callbacks: list[Callback] = []
        for item in callbacks:
            if isinstance(item, Callbacks):
                self._callbacks += item._callbacks
            elif isinstance(item, Callback):
                self._callbacks.append(item)
            else:
                raise TypeError(
                    f"callbacks must be Callback objects, received {item!r} of type {type(item).__name__}."
                    + _hint(item)
                )
        self._ready = False
        self.dynamic: tuple[Callback, ...] = ()
        self._fetches: Schedule[StepFetch] = Schedule([])
        self._step_triggers: Schedule[Callback] = Schedule([])
        self._finishers: tuple[Callback, ...] = ()

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def __len__(self) -> int:
        return len(self._callbacks)

    # ---- setting up

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        """Sets all callbacks up in order, checks statistics, and plans what each kind of step fetches.

        Raises:
            StatisticError: a statistic is consumed that nothing produces in time.
        """
        if not trainer.is_chief:
            self._callbacks = [cb for cb in self._callbacks if not cb.chief_only]
        for cb in self._callbacks:
            cb.setup_graph(trainer)
        check_statistics(self._callbacks)
        self._plan()

    def _plan(self) -> None:
        fetches = [fetch for cb in self._callbacks for fetch in cb.step_fetches()]
        self._fetches = Schedule([(fetch, fetch.every) for fetch in fetches])
        periods = [(cb, cb.step_period()) for cb in self._callbacks]
        self._step_triggers = Schedule([(cb, every) for cb, every in periods if every is not None])
        self.dynamic = tuple(
            cb for cb in self._callbacks if cb.overrides("_before_run") or cb.overrides("_after_run")
        )
        self._finishers = tuple(cb for cb in self._callbacks if cb.overrides("_after_triggers"))
        self._ready = True

    # ---- around a step

    @property
    def every_step_fetches(self) -> tuple[StepFetch, ...]:
        """What plain steps fetch: known before the session exists."""
        self._check_ready()
        return self._fetches.always

    def due_fetches(self, step: int, epoch: int, last_step: bool) -> tuple[StepFetch, ...]:
        """Fetches due at the step about to run; equal sets come back as the same object. See `Every.due`."""
        return self._fetches.due(step, epoch, last_step)

    @staticmethod
    def receive(due: tuple[StepFetch, ...], values: list[Any]) -> None:
        """Hands fetched values to their receivers; `values` has one element per element of `due`."""
        for fetch, value in zip(due, values):
            if fetch.receive is not None:
                fetch.receive(value)

    def before_run(self, context: Any) -> list[tf.train.SessionRunArgs]:
        """Asks each dynamic callback what to fetch and feed."""
        return [_as_run_args(cb._before_run(context)) for cb in self.dynamic]

    def after_run(self, context: Any, values: list[tf.train.SessionRunValues]) -> None:
        """Gives each dynamic callback its values; one element each, in the order of `before_run`."""
        for cb, value in zip(self.dynamic, values):
            cb._after_run(context, value)

    def trigger_step(self, step: int, epoch: int, last_step: bool) -> None:
        """Calls `_trigger_step` of those that want it after this step."""
        due = self._step_triggers.due(step, epoch, last_step)
        if not due:
            return
        stop = _call_all(cb._trigger_step for cb in due)
        # At the last step the epoch's triggers are still to come.
        if not last_step or stop is not None:
            self._finish_triggers()
        if stop is not None:
            raise stop

    # ---- around an epoch and a run

    def before_train(self) -> None:
        """Calls all `_before_train`."""
        self._check_ready()
        for cb in self._callbacks:
            cb._before_train()

    def before_epoch(self) -> None:
        """Calls all `_before_epoch`."""
        for cb in self._callbacks:
            cb._before_epoch()

    def after_epoch(self) -> None:
        """Calls all `_after_epoch`."""
        for cb in self._callbacks:
            cb._after_epoch()

    def trigger_epoch(self) -> None:
        """Calls all `_trigger_epoch`."""
        stop = _call_all(cb._trigger_epoch for cb in self._callbacks)
        self._finish_triggers()
        if stop is not None:
            raise stop

    def _finish_triggers(self) -> None:
        for cb in self._finishers:
            cb._after_triggers()

    def after_train(self) -> None:
        """Calls all `_after_train`, whatever some of them raise; then raises the first exception.

        The others are logged with their tracebacks, as only one can be raised.
        """
        errors: list[Exception] = []
        for cb in self._callbacks:
            try:
                cb._after_train()
            except StopTraining:
                pass  # it has stopped
            except Exception as error:
                if errors:
                    _log.exception("%s failed in after_train, after an earlier callback had", cb)
                errors.append(error)
        if errors:
            raise errors[0]

    # ---- state

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """The states of all callbacks that have one, each under its own key."""
        states = {key: cb.state_dict() for key, cb in self._keyed()}
        return {key: state for key, state in states.items() if state}

    def load_state_dict(self, states: dict[str, dict[str, Any]]) -> None:
        """Gives each callback its state back. A callback that is new since then starts afresh.

        Raises:
            CheckpointError: a state belongs to no callback of this run.
        """
        keyed = dict(self._keyed())
        unknown = sorted(set(states) - set(keyed))
        if unknown:
            raise CheckpointError(
                f"The checkpoint holds the state of callbacks this run has not: {', '.join(unknown)}. "
                f"This run has: {', '.join(sorted(keyed)) or 'none'}. Add them, or start without resuming."
            )
        for key, state in states.items():
            keyed[key].load_state_dict(state)

    def _keyed(self) -> Iterator[tuple[str, Callback]]:
        """Callbacks with keys that tell equal ones apart: "ModelSaver", "ModelSaver#2"."""
        seen: Counter[str] = Counter()
        for cb in self._callbacks:
            name = str(cb)
            seen[name] += 1
            yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), cb

    def _check_ready(self) -> None:
        if not self._ready:
            raise CallbackStateError("These callbacks are not set up: call setup_graph(trainer) first.")


def _call_all(calls: Iterable[Callable[[], None]]) -> StopTraining | None:
    """Calls all, also after one asked to stop, so that what is saved then is of one moment."""
    stop = None
    for call in calls:
        try:
            call()
        except StopTraining as reason:
            stop = stop or reason
    return stop


def _hint(item: Any) -> str:
    if isinstance(item, type):
        return " Did you forget to call it: `()`?"
    if isinstance(item, tf.train.SessionRunHook):
        return " Wrap a session hook: HookToCallback(hook)."
    return ""


def _as_run_args(asked: Any) -> tf.train.SessionRunArgs:
    if isinstance(asked, tf.train.SessionRunArgs):
        return asked
    return tf.train.SessionRunArgs(fetches=asked)
