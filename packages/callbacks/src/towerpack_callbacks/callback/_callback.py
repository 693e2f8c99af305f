"""The base class of all callbacks, with a sketch of the loop, and its fetches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import CallbackStateError
from ._every import EVERY_EPOCH, EVERY_STEP, Every, as_every
from ._trainer_protocol import TrainerProtocol, forget_state

__all__ = ["Callback", "StepFetch", "is_replaced", "output_directory"]


@final
@attrs.frozen(eq=False)  # tensors do not compare to one truth value
class StepFetch:
    """Declares values to fetch together with the training step, and the function that receives them.

    Args:
        fetches: a tensor, an op, or any structure of them that `Session.run` takes.
        receive: called with the fetched values right after the run; None for ops that run for their side
            effect.
        every: the period, as an `Every` or a string such as "100 steps"; other steps have no cost.
        options: options of the session call, such as tracing; `receive` then takes a pair of the values and
            the call's `tf.RunMetadata`. Options of several fetches are merged.

    Example:
        >>> from towerpack_callbacks import Callback
        >>> class PrintLabels(Callback):
        ...     def step_fetches(self):
        ...         labels = self.trainer.get_tensors(["label"])
        ...         return [StepFetch(labels, print, every="100 steps")]
    """

    fetches: Any
    receive: Callable[[Any], None] | None = None
    every: Every = attrs.field(default=EVERY_STEP, converter=as_every)
    options: tf.RunOptions | None = None


class Callback:
    """Base class of callbacks. Override the underscored methods you need; the loop calls them.

    The loop, for all callbacks `cb` in their order:

    ```
    cb._setup_graph()                         # the graph exists; the only place to create ops
    ... the session is created, initialised, restored; the graph is final ...
    cb._before_train()
    for epoch_num in range(starting_epoch, max_epoch + 1):
        cb._before_epoch()                    # must be quick: it counts as training time
        for local_step in range(first_step, steps_per_epoch):
            fetches = cb.step_fetches() that are due, and cb._before_run(context)
            values = session.run([train_op, fetches])
            global_step += 1
            receive(values) of each due fetch, then cb._after_run(context, values)
            cb._trigger_step()                # at the steps of cb.step_period()
            cb._after_triggers()              # if any was triggered, except at the epoch's last step
        cb._after_epoch()                     # must be quick, too
        cb._trigger_epoch()                   # calls cb._trigger() unless overridden
        cb._after_triggers()                  # checkpoints are written here
    cb._after_train()                         # always, also after an error or Ctrl-C
    ```

    `first_step` is 0, except in the first epoch of a run that resumes inside an epoch. A `StopTraining`
    raised by a trigger ends the loop after all triggers of that step have run.

    An epoch is only the default period of callbacks; it never resets the data. Values fetched through
    `step_fetches` or `_before_run` are computed *along with* the step, from the same input; a `sess.run` in a
    trigger is a separate run, which consumes another datapoint if it depends on the input. A callback that
    overrides no per-step method adds no cost to a step. If no callback acts at every step, the loop may run
    several steps in one session call; periods in seconds then wait for the end of that call, at most 0.05 s.

    Attributes:
        chief_only: when several processes train together, only the chief runs this callback.
    """

    chief_only: bool = True
    _trainer: TrainerProtocol | None = None
    _first_state: dict[str, Any] | None = None

    # ---- called by the loop

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        """Binds this callback to a loop and adds its ops, under a name scope named after its class.

        State from an earlier run, such as a dry run, is discarded: the callback returns to its state at the
        first set-up.
        """
        self._trainer = trainer
        # Python class names may contain letters that TensorFlow does not allow in scopes.
        scope = re.sub(r"[^A-Za-z0-9_]", "_", type(self).__name__).strip("_")
        with trainer.graph.as_default(), tf.name_scope(scope):
            self._setup_graph()
        self._forget_earlier_run()

    def _forget_earlier_run(self) -> None:
        self._first_state = forget_state(self, self._first_state)

    def trigger(self) -> None:
        """Does this callback's work now, regardless of its period."""
        self._trigger()

    # ---- overridden by subclasses

    def _setup_graph(self) -> None:
        """Adds ops to the graph. There is no session yet."""

    def _before_train(self) -> None:
        """Runs once before the first step, with a final graph and an initialised, restored session."""

    def _before_epoch(self) -> None:
        """Runs before an epoch's first step."""

    def _before_run(self, context: Any) -> Any:
        """Chooses additional fetches and feeds at each step.

        Overriding it costs time in every step. If the choice is known beforehand, use `step_fetches`.

        Args:
            context: a `tf.train.SessionRunContext`.

        Returns:
            None, a `tf.train.SessionRunArgs`, or a fetch structure.
        """

    def _after_run(self, context: Any, run_values: Any) -> None:
        """Receives the values requested by `_before_run`, as a `tf.train.SessionRunValues`."""

    def _trigger_step(self) -> None:
        """Runs after a step; see `step_period`."""

    def _after_epoch(self) -> None:
        """Runs after an epoch's last step, before any `_trigger_epoch`."""

    def _trigger_epoch(self) -> None:
        self._trigger()

    def _trigger(self) -> None:
        """Does the periodic work; by default once per epoch, or at the periods of a `PeriodicTrigger`."""

    def _after_triggers(self) -> None:
        """Runs after all triggers of a step or epoch, so that all states belong to the same step.

        At an epoch's last step it runs once, after `_trigger_epoch`.
        """

    def _after_train(self) -> None:
        """Runs once at the end, also after an error."""

    # ---- declarations

    def step_fetches(self) -> Sequence[StepFetch]:
        """Returns the fetches of the training step and their periods. Called once, after `_setup_graph`."""
        return ()

    def step_period(self) -> Every | None:
        """Returns the period of `_trigger_step`: each step if it is overridden, else None for never."""
        return EVERY_STEP if self.overrides("_trigger_step") else None

    def epoch_period(self) -> Every | None:
        """Returns the period of `_trigger_epoch`: each epoch if it or `_trigger` is overridden, else None."""
        return EVERY_EPOCH if self.overrides("_trigger_epoch") or self.overrides("_trigger") else None

    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics that this callback puts to the monitors in its triggers."""
        return ()

    def produces_in_run(self) -> Sequence[str]:
        """Returns the names of the statistics that it puts while receiving fetches, before any trigger."""
        return ()

    def headlines(self) -> Sequence[str]:
        """Returns the names of its statistics that the console shows; by default, all of them."""
        return [*self.produces_in_run(), *self.produces()]

    def consumes(self) -> Sequence[str]:
        """Returns the names of the statistics that it reads; earlier callbacks must produce them."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that must survive a restart; empty if the callback has no state.

        The state consists of None, truth values, numbers, strings, bytes, lists, tuples and dicts, as
        Python's built-in types or NumPy scalars, and is restored exactly. A value that a checkpoint cannot
        hold exactly, such as an array, raises a `CheckpointWriteError`.

        It is also called after `_setup_graph`, for the initial state of a run.

        If an object is both a flow and a callback, this is the state of the flow, which the training's input
        saves. Such an object returns its state as a callback from `callback_state_dict()` and restores it in
        `load_callback_state_dict(state)`.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned, after `_setup_graph` and before `_before_train`.

        A run without a checkpoint starts from the state after the very first `_setup_graph`, even if empty.
        """

    def save_files(self, directory: Path) -> None:
        """Writes state that is too large for `state_dict` to files, right after `state_dict`.

        Override `load_files` as well. The step loop waits during the call, once for each saver. A file may be
        a hard link, which takes no time and no space; the checkpoint neither flushes a linked file nor stores
        a checksum of it, so its writer must do both. The file must not change later.

        Files are not part of the initial state of a run: a run without a checkpoint starts from the files of
        `_setup_graph`. With several processes, only the chief's files are saved.

        Args:
            directory: a new directory for this callback, inside the checkpoint.

        Raises:
            OSError: a file cannot be written; writing the checkpoint then fails.
        """

    def load_files(self, directory: Path) -> None:
        """Restores state from the files that `save_files` wrote, right after `load_state_dict`.

        It is not called if `save_files` wrote no file. The directory is deleted with its checkpoint.
        """
        raise CallbackStateError(
            f"The checkpoint contains files of {self} in {directory}, but {type(self).__name__} has no "
            f"load_files(directory). Add it as the counterpart of save_files(directory)."
        )

    # ---- conveniences

    @property
    def trainer(self) -> TrainerProtocol:
        """The loop that drives this callback.

        Raises:
            CallbackStateError: `setup_graph` has not been called yet.
        """
        if self._trainer is None:
            raise CallbackStateError(
                f"{type(self).__name__} has no trainer yet: it is set when training is set up. "
                "Use it from _setup_graph on, not in __init__."
            )
        return self._trainer

    @property
    def graph(self) -> tf.Graph:
        """The trainer's graph."""
        return self.trainer.graph

    @property
    def epoch_num(self) -> int:
        """The running epoch, from 1."""
        return self.trainer.loop.epoch_num

    @property
    def local_step(self) -> int:
        """The running step within the epoch, from 0."""
        return self.trainer.loop.local_step

    @property
    def global_step(self) -> int:
        """The number of finished steps."""
        return self.trainer.loop.global_step

    @property
    def env_steps(self) -> int:
        """The number of steps that an agent has taken in its environments; 0 without an agent."""
        return self.trainer.loop.env_steps

    @property
    def log_dir(self) -> Path | None:
        """The run's directory."""
        return self.trainer.log_dir

    def overrides(self, method: str) -> bool:
        """Returns whether this callback overrides `method`; the loop skips callbacks that do not.

        The override may be a method of a subclass, or a function set on the object before set-up.
        """
        return is_replaced(self, Callback, method)

    def __str__(self) -> str:
        return type(self).__name__


def is_replaced(instance: object, base: type, method: str) -> bool:
    """Returns whether an object's class or the object itself overrides `method` of its base class."""
    return getattr(getattr(instance, method), "__func__", None) is not getattr(base, method)


def output_directory(callback: Callback, given: Path | None = None, parameter: str = "") -> Path:
    """Returns the directory for a callback's files: its own argument, or else the run's directory.

    Args:
        callback: the callback, already set up.
        given: the directory passed to the callback, or None.
        parameter: name of the callback's parameter for the directory; "" without one.

    Raises:
        ValueError: neither the callback nor the run has a directory.
    """
    directory = given or callback.log_dir
    if directory is None:
        here = f", or {parameter}= here" if parameter else ""
        raise ValueError(f"{callback} has nowhere to write: give log_dir= to the run{here}.")
    return directory
