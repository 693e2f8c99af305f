"""All callbacks of one run, as the loop drives them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import tensorflow.compat.v1 as tf

from .._errors import CallbackStateError, CheckpointError, StopTraining
from ..callback._callback import Callback
from ..callback._due_schedule import DueSchedule
from ..callback._every import Every
from ..callback._step_fetch import StepFetch
from ..callback._trainer_protocol import TrainerProtocol
from ._callback_times import Stopwatch, Stopwatches
from ._statistics_order import check_statistics

__all__ = ["Callbacks"]

_log = logging.getLogger("towerpack_callbacks")

_Trigger = tuple[Callable[[], None], Stopwatch]


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
            options = callbacks.run_options(due, args)   # None, nearly always
            ... one session call fetches the step, due and args; global_step += 1 ...
            callbacks.receive(due, values, metadata); callbacks.after_run(context, values)
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
        self._fetches: DueSchedule[StepFetch] = DueSchedule([])
        self._step_triggers: DueSchedule[_Trigger] = DueSchedule([])
        self._epoch_triggers: tuple[_Trigger, ...] = ()
        self._periods: tuple[tuple[Callback, Every], ...] = ()
        self._finishers: tuple[_Trigger, ...] = ()
        self._watches = Stopwatches([], [])

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
        self._watches = Stopwatches([name for name, _ in self._keyed()], self._callbacks)
        watch = self._watches.of
        fetches = [(cb, fetch) for cb in self._callbacks for fetch in cb.step_fetches()]
        self._fetches = DueSchedule([(_timed(fetch, watch(cb)), fetch.every) for cb, fetch in fetches])
        periods = [(cb, cb.step_period()) for cb in self._callbacks]
        triggers = [(cb, every) for cb, every in periods if every is not None]
        self._step_triggers = DueSchedule([((cb._trigger_step, watch(cb)), every) for cb, every in triggers])
        self._periods = (*((cb, fetch.every) for cb, fetch in fetches), *triggers)
        self._epoch_triggers = tuple((cb._trigger_epoch, watch(cb)) for cb in self._callbacks)
        self.dynamic = tuple(
            cb for cb in self._callbacks if cb.overrides("_before_run") or cb.overrides("_after_run")
        )
        self._finishers = tuple(
            (cb._after_triggers, watch(cb)) for cb in self._callbacks if cb.overrides("_after_triggers")
        )
        self._ready = True

    # ---- around a step

    def step_periods(self) -> Sequence[tuple[Callback, Every]]:
        """Who wants something of which steps: every fetch's period and every trigger's."""
        self._check_ready()
        return self._periods

    @property
    def every_step_fetches(self) -> tuple[StepFetch, ...]:
        """What plain steps fetch: known before the session exists."""
        self._check_ready()
        return self._fetches.always

    @property
    def look_at_every_step(self) -> bool:
        """Whether some callback receives something or does something at every step."""
        self._check_ready()
        received = any(fetch.receive or fetch.options for fetch in self._fetches.always)
        return received or bool(self.dynamic or self._step_triggers.always)

    def idle_steps(self, step: int) -> float:
        """After how many steps from `step` on a callback may want something again; an epoch's last apart.

        A loop may run so many without asking, if nobody looks at every step.
        """
        return min(self._fetches.idle_steps(step), self._step_triggers.idle_steps(step))

    def due_fetches(self, step: int, epoch: int, last_step: bool) -> tuple[StepFetch, ...]:
        """Fetches due at the step about to run; equal sets come back as the same object. See `Every.due`."""
        return self._fetches.due(step, epoch, last_step)

    @staticmethod
    def run_options(
        due: Sequence[StepFetch], args: Sequence[tf.train.SessionRunArgs] = ()
    ) -> tf.RunOptions | None:
        """The options that the fetches due and the dynamic callbacks ask of the session call, merged."""
        given = [asked.options for asked in [*due, *args] if asked.options is not None]
        if not given:
            return None
        merged = tf.RunOptions()
        for options in given:
            merged.MergeFrom(options)
        return merged

    @staticmethod
    def receive(
        due: tuple[StepFetch, ...], values: list[Any], metadata: tf.RunMetadata | None = None
    ) -> None:
        """Hands fetched values to their receivers; `values` has one element per element of `due`."""
        for fetch, value in zip(due, values):
            if fetch.receive is not None:
                fetch.receive(value if fetch.options is None else (value, metadata))

    def before_run(self, context: Any) -> list[tf.train.SessionRunArgs]:
        """Asks each dynamic callback what to fetch and feed."""
        args, now = [], time.perf_counter()
        for cb in self.dynamic:
            args.append(_as_run_args(cb._before_run(context)))
            now = self._count(cb, now)
        return args

    def after_run(self, context: Any, values: list[tf.train.SessionRunValues]) -> None:
        """Gives each dynamic callback its values; one element each, in the order of `before_run`."""
        now = time.perf_counter()
        for cb, value in zip(self.dynamic, values):
            cb._after_run(context, value)
            now = self._count(cb, now)

    def trigger_step(self, step: int, epoch: int, last_step: bool) -> None:
        """Calls `_trigger_step` of those that want it after this step."""
        due = self._step_triggers.due(step, epoch, last_step)
        if not due:
            return
        stop = _call_all(due)
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
        self._fetches.start()
        self._step_triggers.start()

    def before_epoch(self) -> None:
        """Calls all `_before_epoch`."""
        self._watches.start_epoch()
        now = time.perf_counter()
        for cb in self._callbacks:
            cb._before_epoch()
            now = self._count(cb, now)

    def after_epoch(self) -> None:
        """Calls all `_after_epoch`."""
        now = time.perf_counter()
        for cb in self._callbacks:
            cb._after_epoch()
            now = self._count(cb, now)

    def trigger_epoch(self) -> None:
        """Calls all `_trigger_epoch`."""
        stop = _call_all(self._epoch_triggers)
        self._finish_triggers()
        if self._callbacks:
            self._watches.end_epoch(self._callbacks[0].epoch_num)
        if stop is not None:
            raise stop

    def trigger_all(self) -> None:
        """Does every callback's periodic work once, whatever its period: the end of a rehearsal.

        A loop that runs only a few steps to see whether everything works calls it instead of the last
        `trigger_epoch`, so that evaluations and savers with long periods are tried, too.
        """
        stop = _call_all(tuple((cb.trigger, self._watches.of(cb)) for cb in self._callbacks))
        self._finish_triggers()
        if stop is not None:
            raise stop

    def _finish_triggers(self) -> None:
        for finish, watch in self._finishers:
            start = time.perf_counter()
            finish()
            watch.seconds += time.perf_counter() - start

    def _count(self, callback: Callback, since: float) -> float:
        now = time.perf_counter()
        self._watches.of(callback).seconds += now - since
        return now

    def seconds(self) -> dict[str, float]:
        """What each callback took of the last epoch that is over, in seconds, the slowest first.

        Its share of fetching values in the session call is not among it.
        """
        return dict(self._watches.last_epoch)

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

    def load_state_dict(self, states: dict[str, dict[str, Any]], allow_unknown: bool = False) -> None:
        """Gives each callback its state back. A callback that is new since then starts afresh.

        Args:
            states: what `state_dict()` returned.
            allow_unknown: leave out, with a warning, what belongs to no callback of this run.

        Raises:
            CheckpointError: a state belongs to no callback of this run.
        """
        keyed = dict(self._keyed())
        unknown = sorted(set(states) - set(keyed))
        if unknown:
            difference = (
                f"The checkpoint holds the state of callbacks this run has not: {', '.join(unknown)}. "
                f"This run has: {', '.join(sorted(keyed)) or 'none'}."
            )
            if not allow_unknown:
                raise CheckpointError(
                    f"{difference} Add them, or allow their states to be left out (a trainer does by "
                    'TrainConfig(resume_allow=["callbacks"])).'
                )
            _log.warning("%s They are left out, as is allowed.", difference)
        for key, state in states.items():
            if key in keyed:
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


def _call_all(triggers: Iterable[_Trigger]) -> StopTraining | None:
    """Calls all, also after one asked to stop, so that what is saved then is of one moment."""
    stop = None
    start = time.perf_counter()
    for call, watch in triggers:
        try:
            call()
        except StopTraining as reason:
            stop = stop or reason
        end = time.perf_counter()
        watch.seconds += end - start
        start = end
    return stop


def _timed(fetch: StepFetch, watch: Stopwatch) -> StepFetch:
    if fetch.receive is None:
        return fetch
    return attrs.evolve(fetch, receive=watch.around(fetch.receive))


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
