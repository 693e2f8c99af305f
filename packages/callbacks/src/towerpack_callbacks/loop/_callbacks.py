"""The callbacks of one run, combined in one object: their order, calls, fetches, states and description."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import CallbackStateError, CheckpointError, StatisticError, StopTraining
from ..callback._callback import Callback, StepFetch
from ..callback._every import DueSchedule, Every, LoopState
from ..callback._trainer_protocol import TrainerProtocol, load_state_of, state_of
from ..checkpoint.format import folder_of, key_of
from ..graph import find_ancestors
from ..monitors import Monitor
from ._callback_times import CallbackTimes, TimedCall, call_timed
from ._step_plan import StepPlan, as_run_args, merge_options

__all__ = [
    "Callbacks",
    "Report",
    "announce_console_statistics",
    "check_statistics",
    "explain_callbacks",
    "keyed",
    "load_states",
    "save_files_of",
    "states_of",
]

_log = logging.getLogger("towerpack_callbacks")


@final
class Callbacks:
    """Combines a list of callbacks in one object for a loop; see the loop in `Callback`.

    A custom loop calls the methods named as in `Callback` and runs its steps with a `StepRunner`:

    >>> from types import SimpleNamespace
    >>> import tensorflow.compat.v1 as tf
    >>> from towerpack_callbacks import Callback, Callbacks, LoopState, StepCounter, StepRunner
    >>> class Print(Callback):
    ...     def _trigger_step(self):
    ...         print("step", self.global_step)
    >>> callbacks, loop = Callbacks([Print()]), LoopState(steps_per_epoch=2, max_epoch=1)
    >>> trainer = SimpleNamespace(graph=tf.Graph(), loop=loop, is_chief=True)  # see `TrainerProtocol`
    >>> with trainer.graph.as_default():
    ...     train_op = tf.no_op()
    ...     counter = StepCounter(trainer.graph)
    ...     callbacks.setup_graph(trainer)
    ...     start = tf.global_variables_initializer()
    >>> with tf.Session(graph=trainer.graph) as trainer.sess:
    ...     _ = trainer.sess.run(start)
    ...     steps = StepRunner(trainer.sess, callbacks, loop, counter)
    ...     callbacks.before_train()
    ...     for loop.epoch_num in range(loop.starting_epoch, loop.max_epoch + 1):
    ...         callbacks.before_epoch()
    ...         for loop.local_step in range(loop.steps_per_epoch):
    ...             _ = steps.run(train_op)
    ...             callbacks.trigger_step(loop.global_step, loop.epoch_num, loop.is_last_step)
    ...         callbacks.after_epoch()
    ...         callbacks.trigger_epoch()
    ...     callbacks.after_train()
    step 1
    step 2

    Args:
        callbacks: the callbacks in their order; a nested `Callbacks` is flattened.

    Attributes:
        per_step_callbacks: callbacks that choose fetches and feeds at each step, available after set-up.

    Raises:
        TypeError: an element is not a callback.
    """

    def __init__(self, callbacks: Iterable[Callback | Callbacks]) -> None:
        self._callbacks: list[Callback] = []
        for item in callbacks:
            if isinstance(item, (Callback, Callbacks)):
                self._callbacks += item._callbacks if isinstance(item, Callbacks) else [item]
            else:
                raise TypeError(
                    f"callbacks must be Callback objects, received {item!r} of type {type(item).__name__}."
                    + _hint(item)
                )
        self._ready, self._loop = False, LoopState(steps_per_epoch=1)
        self.per_step_callbacks: tuple[Callback, ...] = ()
        self._step_fetches: list[tuple[Callback, StepFetch]] = []
        self._fetches: DueSchedule[StepFetch] = DueSchedule([])
        self._plans: dict[tuple[StepFetch, ...], StepPlan] = {}
        self._step_triggers: DueSchedule[TimedCall] = DueSchedule([])
        self._epoch_starts: tuple[TimedCall, ...] = ()
        self._epoch_ends: tuple[TimedCall, ...] = ()
        self._epoch_triggers: tuple[TimedCall, ...] = ()
        self._after_triggers: tuple[TimedCall, ...] = ()
        self._periods: tuple[tuple[Callback, Every], ...] = ()
        self._times = CallbackTimes([], [])

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def __len__(self) -> int:
        return len(self._callbacks)

    def __getattr__(self, name: str) -> Any:
        advice = ""
        if hasattr(list, name):
            advice = (
                ": it is immutable. Change a list first: callbacks = [...]; callbacks.append(...); then "
                "pass it, for example TrainConfig(callbacks=callbacks) of the trainers. Or make a new one: "
                "attrs.evolve(config, callbacks=[*config.callbacks, ...])"
            )
        raise AttributeError(f"Callbacks has no attribute {name!r}{advice}.")

    # ---- set-up

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        """Sets up all callbacks in order, checks statistics, and schedules fetches and triggers.

        Raises:
            StatisticError: no earlier callback produces a consumed statistic.
        """
        if not trainer.is_chief:
            self._callbacks = [cb for cb in self._callbacks if not cb.chief_only]
        for cb in self._callbacks:
            cb.setup_graph(trainer)
        check_statistics(self._callbacks)
        announce_console_statistics(self._callbacks)
        self._loop = trainer.loop
        self._schedule()

    def _schedule(self) -> None:
        callbacks = self._callbacks
        self._times = CallbackTimes([key for key, _ in keyed(callbacks)], callbacks, loop=self._loop)
        timer = self._times.of
        self._step_fetches = fetches = [(cb, fetch) for cb in callbacks for fetch in cb.step_fetches()]
        timed = [(timer(cb).timed_fetch(fetch), fetch.every) for cb, fetch in fetches]
        self._fetches = DueSchedule(timed, env_steps=self._env_steps_passed)
        triggers = [(cb, every) for cb in callbacks if (every := cb.step_period()) is not None]
        calls = [(("_trigger_step", timer(cb)), every) for cb, every in triggers]
        self._step_triggers = DueSchedule(calls, env_steps=self._env_steps_passed)
        self._periods = (*((cb, fetch.every) for cb, fetch in fetches), *triggers)
        self._epoch_starts = self._calls("_before_epoch", callbacks)
        self._epoch_ends = self._calls("_after_epoch", callbacks)
        self._epoch_triggers = self._calls("_trigger_epoch", callbacks)
        self._after_triggers = self._calls(
            "_after_triggers", [cb for cb in callbacks if cb.overrides("_after_triggers")]
        )
        self.per_step_callbacks = tuple(
            cb for cb in callbacks if cb.overrides("_before_run") or cb.overrides("_after_run")
        )
        self._ready = True

    def _env_steps_passed(self) -> tuple[int, int]:
        return self._loop.env_steps_passed

    def _calls(self, method: str, callbacks: Iterable[Callback]) -> tuple[TimedCall, ...]:
        return tuple((method, self._times.of(cb)) for cb in callbacks)

    # ---- periods

    def step_periods(self) -> Sequence[tuple[Callback, Every]]:
        """Returns the periods of all fetches and triggers, with their callbacks."""
        self._check_ready()
        return self._periods

    @property
    def every_step_fetches(self) -> tuple[StepFetch, ...]:
        """The fetches of every step, known before the session exists."""
        self._check_ready()
        return self._fetches.always

    @property
    def needs_every_step(self) -> bool:
        """Whether a callback receives values or acts at every step."""
        self._check_ready()
        received = any(fetch.receive or fetch.options for fetch in self._fetches.always)
        return received or bool(self.per_step_callbacks or self._step_triggers.always)

    def unobserved_steps(self, step: int) -> float:
        """Returns the number of steps after `step` without any callback's action, ignoring ends of epochs.

        If no callback needs every step, a loop may run that many steps in one session call.
        """
        return min(self._fetches.unobserved_steps(step), self._step_triggers.unobserved_steps(step))

    def due_fetches(self, step: int, epoch: int, last_step: bool) -> tuple[StepFetch, ...]:
        """Returns the fetches due at the next step; equal sets are the same object. See `Every.due`."""
        return self._fetches.due(step, epoch, last_step)

    def plan(self, due: tuple[StepFetch, ...]) -> StepPlan:
        """Returns the plan of a step with these due fetches; equal sets have the same object."""
        plan = self._plans.get(due)
        if plan is None:
            plan = self._plans[due] = StepPlan(due)
        return plan

    # ---- around a step

    @staticmethod
    def run_options(
        due: Sequence[StepFetch], args: Sequence[tf.train.SessionRunArgs] = ()
    ) -> tf.RunOptions | None:
        """Merges the session call options of due fetches and per-step callbacks."""
        return merge_options(each.options for each in [*due, *args])

    @staticmethod
    def receive(
        due: tuple[StepFetch, ...], values: list[Any], metadata: tf.RunMetadata | None = None
    ) -> None:
        """Passes fetched values to their receivers; `values` has one element per element of `due`."""
        StepPlan(due).deliver(values, metadata)

    def before_run(self, context: Any) -> list[tf.train.SessionRunArgs]:
        """Calls `_before_run` of each per-step callback; returns their fetches and feeds."""
        timer = self._times.of
        return [as_run_args(timer(cb).call("_before_run", context)) for cb in self.per_step_callbacks]

    def after_run(self, context: Any, values: list[tf.train.SessionRunValues]) -> None:
        """Calls `_after_run` of each per-step callback; one element each, in the order of `before_run`."""
        for cb, value in zip(self.per_step_callbacks, values):
            self._times.of(cb).call("_after_run", context, value)

    def trigger_step(self, step: int, epoch: int, last_step: bool) -> None:
        """Calls `_trigger_step` of the callbacks that are due after this step."""
        due, acted = self._step_triggers.due(step, epoch, last_step), self._loop.env_steps
        stop = self._loop.stop = call_timed(due, all_of_them=True) if due else None
        self._loop.observed_env_steps = acted
        # At the last step the epoch's triggers are still pending.
        if due and (not last_step or stop is not None):
            call_timed(self._after_triggers)
        if stop is not None:
            raise stop

    # ---- around an epoch and a run

    def before_train(self) -> None:
        """Calls all `_before_train`."""
        self._check_ready()
        for cb in self._callbacks:
            self._times.of(cb).call("_before_train")
        step = self._callbacks[0].global_step if self._callbacks else 0
        self._fetches.start(step)
        self._step_triggers.start(step)

    def before_epoch(self) -> None:
        """Calls all `_before_epoch`."""
        self._loop.triggers_due = True
        self._times.start_epoch()
        call_timed(self._epoch_starts)

    def after_epoch(self) -> None:
        """Calls all `_after_epoch`; the triggers follow."""
        call_timed(self._epoch_ends)
        self._loop.triggers_due = False

    def trigger_epoch(self) -> None:
        """Calls all `_trigger_epoch`, then all `_after_triggers`."""
        stop = self._loop.stop = call_timed(self._epoch_triggers, all_of_them=True)
        call_timed(self._after_triggers)
        if self._callbacks:
            self._times.end_epoch(self._callbacks[0].epoch_num)
        if stop is not None:
            raise stop

    def trigger_all(self) -> None:
        """Triggers every callback once regardless of its period, at the end of a dry run.

        A loop that runs only a few steps as a test calls it instead of the last `trigger_epoch`, so that
        evaluations and savers with long periods are also tested.
        """
        stop = self._loop.stop = call_timed(self._calls("trigger", self._callbacks), all_of_them=True)
        call_timed(self._after_triggers)
        if stop is not None:
            raise stop

    def seconds(self) -> dict[str, float]:
        """Returns the time of each callback in the last finished epoch, in seconds, the slowest first.

        The time of fetching values in the session call is not included.
        """
        return dict(self._times.last_epoch)

    def after_train(self) -> None:
        """Calls all `_after_train`, even if some fail; then raises the first exception.

        An exception that ends the process, such as `SystemExit`, takes precedence. All others are logged with
        their tracebacks, since only one can be raised.
        """
        if self._ready:
            self._times.forget_errors()
        errors: list[BaseException] = []
        for cb in self._callbacks:
            try:
                cb._after_train()
            except StopTraining:
                pass  # the training has already stopped
            except BaseException as error:
                if errors:
                    _log.exception("%s failed in after_train, after the failure of an earlier callback", cb)
                errors.append(error)
        if errors:
            raise next((error for error in errors if not isinstance(error, Exception)), errors[0])

    # ---- origin of errors

    def raiser_of(self, error: BaseException) -> Callback | None:
        """Returns the callback that raised an exception; None for other origins, and after `after_train`."""
        return self._times.raiser_of(error)

    def fetcher_of(self, op: tf.Operation) -> Callback | None:
        """Returns the first callback with a fetch that depends on an op, or None."""
        for cb, fetch in self._step_fetches:
            if op in find_ancestors(_elements(fetch, op.graph)):
                return cb
        return None

    # ---- state

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the states of all callbacks with a state, each under a unique key."""
        return states_of(self._callbacks)

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files to folders of a directory, which is created if needed."""
        save_files_of(self._callbacks, directory)

    def load_state_dict(
        self, states: dict[str, dict[str, Any]], allow_unknown: bool = False, files: Path | None = None
    ) -> None:
        """Loads the state of each callback, then its files. Callbacks without a saved state are unchanged.

        Args:
            states: the return value of `state_dict`.
            allow_unknown: skip states and files of unknown callbacks, with a warning.
            files: the directory written by `save_files`; None or absent: there are no files.

        Raises:
            CheckpointError: a state or files belong to a callback that this run lacks.
        """
        load_states(self._callbacks, states, allow_unknown, files)

    def _check_ready(self) -> None:
        if not self._ready:
            raise CallbackStateError("These callbacks are not set up: call setup_graph(trainer) first.")


def _elements(fetch: StepFetch, graph: tf.Graph) -> list[tf.Tensor | tf.Operation]:
    return [graph.as_graph_element(element) for element in tf.nest.flatten(fetch.fetches)]


def _hint(item: Any) -> str:
    if isinstance(item, type):
        return " Did you forget to call it: `()`?"
    if isinstance(item, tf.train.SessionRunHook):
        return " Wrap a session hook: HookToCallback(hook)."
    return " For a function, write CallbackFactory(trigger=function)." if callable(item) else ""


def keyed(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Callback]]:
    """Yields callbacks with unique keys: "ModelSaver", "ModelSaver#2"."""
    seen: Counter[str] = Counter()
    for cb in callbacks:
        name = str(cb)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), cb


def states_of(callbacks: Iterable[Callback]) -> dict[str, dict[str, Any]]:
    """Returns the states of all callbacks with a state."""
    states = {key: state_of(cb) for key, cb in keyed(callbacks)}
    return {key: state for key, state in states.items() if state}


def save_files_of(callbacks: Iterable[Callback], directory: Path) -> None:
    """Makes callbacks write their files to a directory, each to a separate folder.

    Args:
        callbacks: the callbacks of this run.
        directory: the directory; created if a callback has files.

    Raises:
        OSError: a file cannot be written.
    """
    for key, cb in keyed(callbacks):
        if cb.overrides("save_files"):
            folder = directory / folder_of(key)
            folder.mkdir(parents=True)
            cb.save_files(folder)
            if not any(folder.iterdir()):
                folder.rmdir()


def load_states(
    callbacks: Iterable[Callback],
    states: dict[str, dict[str, Any]],
    allow_unknown: bool = False,
    files: Path | None = None,
) -> None:
    """Loads the state in `states` and the files of each callback.

    Args:
        callbacks: the callbacks of this run.
        states: the return value of `states_of`.
        allow_unknown: skip states and files of unknown callbacks, with a warning.
        files: the directory written by `save_files_of`; None or absent: there are no files.

    Raises:
        CheckpointError: a state or files belong to a callback that this run lacks.
    """
    known = dict(keyed(callbacks))
    keys = {folder_of(key): key for key in known}
    folders = sorted(files.iterdir()) if files is not None and files.is_dir() else []
    found = {keys.get(folder.name, key_of(folder.name)): folder for folder in folders}
    unknown = sorted({*states, *found} - set(known))
    if unknown:
        difference = (
            f"The checkpoint contains states of callbacks that this run lacks: {', '.join(unknown)}. "
            f"This run has: {', '.join(sorted(known)) or 'none'}."
        )
        if not allow_unknown:
            raise CheckpointError(
                f"{difference} Add them, or allow skipping their states (in a trainer, by "
                'TrainConfig(resume_allow=["callbacks"])).'
            )
        _log.warning("%s Skipped them (allowed by resume_allow).", difference)
    for key, cb in known.items():
        if key in states:
            load_state_of(cb, states[key])
        if key in found:
            cb.load_files(found[key])


def check_statistics(callbacks: Sequence[Callback]) -> None:
    """Checks that each statistic a callback consumes is produced by a callback before it.

    A statistic put while a step's fetches are received is available to every trigger.

    Raises:
        StatisticError: no callback, or only a later one, produces a consumed statistic.
    """
    available = {name for cb in callbacks for name in cb.produces_in_run()}
    for position, consumer in enumerate(callbacks):
        for name in consumer.consumes():
            if name not in available:
                raise StatisticError(_describe_missing(name, consumer, callbacks[position + 1 :], available))
        available.update(consumer.produces())


def announce_console_statistics(callbacks: Sequence[Callback]) -> None:
    """Passes the headline statistics of all callbacks to the monitors: those of the steps first."""
    names = [name for callback in callbacks for name in callback.headlines()]
    of_steps = {name for callback in callbacks for name in callback.produces_in_run()}
    headlines = sorted(names, key=lambda name: name not in of_steps)
    for monitor in callbacks:
        if isinstance(monitor, Monitor):
            monitor.expect(headlines)


def _describe_missing(name: str, consumer: Callback, later: Sequence[Callback], available: set[str]) -> str:
    for producer in later:
        if name in producer.produces():
            return (
                f"{consumer} reads the statistic {name!r}, but {producer}, which produces it, comes later. "
                f"Callbacks run in list order; this order works: [{producer}, {consumer}]."
            )
    known = sorted(available.union(*(cb.produces() for cb in later))) if later else sorted(available)
    close = difflib.get_close_matches(name, known, n=3)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return (
        f"{consumer} reads the statistic {name!r}, which no callback produces.{hint} "
        f"Available statistics: {', '.join(known) or 'none'}. "
        "If your callback puts it, return its name from produces()."
    )


@final
class Report(str):
    """Text that a notebook shows line by line."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def explain_callbacks(callbacks: Iterable[Callback]) -> str:
    """Describes the actions and periods of callbacks, in the order they run; they must be set up.

    Args:
        callbacks: such as a `Callbacks` object.

    Returns:
        A line per callback, such as `3. MaxSaver('accuracy')`, with indented lines for its triggers, fetches,
        statistics and state. Lines with "every step" show the extra work of each step.
    """
    lines = []
    for number, callback in enumerate(callbacks, 1):
        lines.append(f"{number:3}. {callback}")
        lines += [f"       {fact}" for fact in _facts(callback)]
    return Report("\n".join(lines))


def _facts(callback: Callback) -> Iterable[str]:
    if callback.overrides("_before_run") or callback.overrides("_after_run"):
        yield "chooses fetches and feeds at every step (_before_run)"
    for fetch in callback.step_fetches():
        yield f"with the step, {fetch.every}: {_names(fetch.fetches)}"
    every = callback.step_period()
    if every is not None:
        yield f"triggered after the step, {every}"
    every = callback.epoch_period()
    if every is not None:
        yield f"triggered after {every}"
    for verb, statistics in (
        ("reads", callback.consumes()),
        ("puts, before any trigger,", callback.produces_in_run()),
        ("puts", callback.produces()),
    ):
        if statistics:
            yield f"{verb} {', '.join(statistics)}"
    if callback.overrides("state_dict"):
        yield "has a state in checkpoints"
    if callback.overrides("save_files"):
        yield "has files in checkpoints"


def _names(fetches: Any) -> str:
    return ", ".join(fetch if isinstance(fetch, str) else fetch.name for fetch in tf.nest.flatten(fetches))
