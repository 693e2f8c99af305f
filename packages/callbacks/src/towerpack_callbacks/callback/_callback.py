"""The base class of all callbacks, with the loop drawn once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import CallbackStateError
from ._callback_state import forget_state
from ._every import EVERY_EPOCH, EVERY_STEP, Every
from ._step_fetch import StepFetch
from ._trainer_protocol import TrainerProtocol

__all__ = ["Callback", "is_replaced", "output_directory"]


class Callback:
    """Does something besides the iterations. Override the underscored methods you need; the loop calls them.

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
            cb._after_triggers()              # if any was triggered, and the epoch goes on
        cb._after_epoch()                     # must be quick, too
        cb._trigger_epoch()                   # calls cb._trigger() unless overridden
        cb._after_triggers()                  # checkpoints are written here
    cb._after_train()                         # always, also after an error or Ctrl-C
    ```

    `first_step` is 0, except in the first epoch of a run that resumes inside an epoch. A `StopTraining`
    of a trigger ends the loop once all triggers of that moment are called.

    An epoch is only the default period of callbacks; it never resets the data. Values fetched through
    `step_fetches` or `_before_run` are computed *along with* the step, from the same input; a `sess.run` in a
    trigger is a run of its own, which takes another datapoint if it depends on the input.
    A callback that overrides nothing of a step costs nothing in it. Where no callback acts at every step, a
    loop may run several steps in one session call; periods in seconds wait for its end, 0.05 s at most.

    Attributes:
        chief_only: when several processes train together, only the chief runs this callback.
    """

    chief_only: bool = True
    _trainer: TrainerProtocol | None = None
    _first_state: dict[str, Any] | None = None

    # ---- what the loop calls

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        """Binds this callback to a loop and lets it add its ops, under a name scope of its class's name.

        What it remembers of an earlier run, such as a rehearsal, is forgotten: its state is again the one it
        had when it was first set up.
        """
        self._trainer = trainer
        # Python allows letters in names of classes that TensorFlow does not allow in scopes.
        scope = re.sub(r"[^A-Za-z0-9_]", "_", type(self).__name__).strip("_")
        with trainer.graph.as_default(), tf.name_scope(scope):
            self._setup_graph()
        self._forget_earlier_run()

    def _forget_earlier_run(self) -> None:
        self._first_state = forget_state(self, self._first_state)

    def trigger(self) -> None:
        """Does this callback's work now, whatever its period."""
        self._trigger()

    # ---- what subclasses override

    def _setup_graph(self) -> None:
        """Adds ops to the graph. The session does not exist yet."""

    def _before_train(self) -> None:
        """Runs once, with the session initialised and restored, and the graph final."""

    def _before_epoch(self) -> None:
        """Runs before an epoch's first step."""

    def _before_run(self, context: Any) -> Any:
        """Chooses, at each step, what else to fetch and feed.

        Overriding it costs time in every step; where the choice is known beforehand, use `step_fetches`.

        Args:
            context: a `tf.train.SessionRunContext`.

        Returns:
            None, a `tf.train.SessionRunArgs`, or a fetch structure.
        """

    def _after_run(self, context: Any, run_values: Any) -> None:
        """Receives the values that `_before_run` chose, as a `tf.train.SessionRunValues`."""

    def _trigger_step(self) -> None:
        """Runs after a step; see `step_period`."""

    def _after_epoch(self) -> None:
        """Runs after an epoch's last step, before any `_trigger_epoch`."""

    def _trigger_epoch(self) -> None:
        self._trigger()

    def _trigger(self) -> None:
        """Does the periodic work; by default once per epoch, or at the periods of a `PeriodicTrigger`."""

    def _after_triggers(self) -> None:
        """Runs when all triggers of a step or epoch are done, so that all states are of one moment.

        At an epoch's last step it runs once, after `_trigger_epoch`.
        """

    def _after_train(self) -> None:
        """Runs once at the end, also after an error."""

    # ---- what a callback declares

    def step_fetches(self) -> Sequence[StepFetch]:
        """Returns what to fetch along with the training step, and when. Read once, after `_setup_graph`."""
        return ()

    def step_period(self) -> Every | None:
        """Returns when to call `_trigger_step`: at each step if it is overridden, else never."""
        return EVERY_STEP if self.overrides("_trigger_step") else None

    def epoch_period(self) -> Every | None:
        """Returns when `_trigger_epoch` acts: each epoch if it or `_trigger` is overridden, else never."""
        return EVERY_EPOCH if self.overrides("_trigger_epoch") or self.overrides("_trigger") else None

    def produces(self) -> Sequence[str]:
        """Names the statistics that this callback puts to the monitors in its triggers."""
        return ()

    def produces_in_run(self) -> Sequence[str]:
        """Names the statistics that it puts while a step's fetches are received, before any trigger."""
        return ()

    def headlines(self) -> Sequence[str]:
        """Names the statistics that the console shows of it by default: all that it produces."""
        return [*self.produces_in_run(), *self.produces()]

    def consumes(self) -> Sequence[str]:
        """Names the statistics that it reads; setup fails if no callback before it produces one."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that must survive a restart; empty: there is none.

        It is made of None, truth values, numbers, strings, bytes, lists, tuples and dicts, of Python's own
        types or NumPy's scalars, and comes back exactly. What a checkpoint cannot hold exactly, such as an
        array, is a `CheckpointWriteError`.

        It is called after `_setup_graph`, too, for the state that a run begins with.

        Of an object that is a flow as well, this is the state of the flow, which the training's input saves.
        Such a callback returns its own state from `callback_state_dict()`, and takes it back by
        `load_callback_state_dict(state)`.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes back what `state_dict` returned, after `_setup_graph` and before `_before_train`.

        A run that resumes none begins with the state after the first `_setup_graph` of all, empty or not.
        """

    def save_files(self, directory: Path) -> None:
        """Puts what is too large for `state_dict` into files of the checkpoint, right after that is called.

        Override `load_files` with it. The step loop waits, for each saver. A file may be a hard link: it then
        takes no time and no room, but what wrote it must have flushed it, and keep a checksum of it, as the
        checkpoint does neither. Nothing may change it later.

        Files are no part of the state that a run begins with: one that resumes none has those of
        `_setup_graph`. In several processes, they are those of the chief.

        Args:
            directory: a new directory of this callback's own, in the checkpoint.

        Raises:
            OSError: a file cannot be written; the checkpoint cannot be either, then.
        """

    def load_files(self, directory: Path) -> None:
        """Takes back what `save_files` put into a directory, right after `load_state_dict`.

        It is not called if `save_files` put nothing there. The directory goes when its checkpoint does.
        """
        raise CallbackStateError(
            f"The checkpoint has files of {self} in {directory}, and {type(self).__name__} has no "
            "load_files(directory) to take them: write it, beside save_files(directory)."
        )

    # ---- conveniences

    @property
    def trainer(self) -> TrainerProtocol:
        """The loop that drives this callback.

        Raises:
            CallbackStateError: `setup_graph` was not called yet.
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
        """The number of steps that an agent has taken in its environments; 0 where there is none."""
        return self.trainer.loop.env_steps

    @property
    def log_dir(self) -> Path | None:
        """The run's directory."""
        return self.trainer.log_dir

    def overrides(self, method: str) -> bool:
        """Returns whether this callback has a `method` of its own; the loop leaves out those that have not.

        It may be that of a subclass, or a function that was set on the object before the loop is set up.
        """
        return is_replaced(self, Callback, method)

    def __str__(self) -> str:
        return type(self).__name__


def is_replaced(instance: object, base: type, method: str) -> bool:
    """Returns whether an object has another `method` than its base class, by its own class or by itself."""
    return getattr(getattr(instance, method), "__func__", None) is not getattr(base, method)


def output_directory(callback: Callback, given: Path | None = None, parameter: str = "") -> Path:
    """Returns the directory for a callback's files: the one given to it, or else the run's.

    Args:
        callback: the callback, which is set up.
        given: the directory that the callback was given, or None.
        parameter: name of the callback's parameter for it; "" if it has none.

    Raises:
        ValueError: the callback was given none, and the run has none.
    """
    directory = given or callback.log_dir
    if directory is None:
        here = f", or {parameter}= here" if parameter else ""
        raise ValueError(f"{callback} has nowhere to write: give log_dir= to the run{here}.")
    return directory
