"""The loop as callbacks see it: counters, methods, statistics to watch, and states to restore.

`towerpack_trainers.Trainer` implements `TrainerProtocol`; so does `as_session_hooks`, which runs callbacks as
plain `SessionRunHook`s. A custom loop can implement it, too.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import StopTraining

__all__ = [
    "InferenceTower",
    "LoopState",
    "StatisticWatch",
    "StatisticsStore",
    "TrainerProtocol",
    "forget_state",
    "is_better",
    "load_state_of",
    "state_of",
]

_log = logging.getLogger("towerpack_callbacks")


@final
@attrs.define
class LoopState:
    """The counters of one run.

    | moment | epoch_num | local_step | global_step |
    | --- | --- | --- | --- |
    | before_train | starting_epoch - 1 | -1 | 0, or the checkpoint's |
    | before the i-th step (from 0) of epoch e | e | i | steps finished so far |
    | after that step's run, and in trigger_step | e | i | one more than before |
    | after_epoch, trigger_epoch | e | steps_per_epoch - 1 | all of e counted |

    Attributes:
        steps_per_epoch: steps in an epoch; an epoch is only the default period of callbacks.
        max_epoch: the last epoch to run; None if the loop itself sets no limit.
        starting_epoch: the first epoch of this run; not 1 if the run is resumed.
        starting_step: the first local step of the first epoch; not 0 when a run resumes inside an epoch. It
            is `steps_per_epoch` if all steps of the epoch are done and only its triggers are pending.
        epoch_num: the running epoch, from 1.
        local_step: the running step within the epoch, from 0.
        global_step: finished steps since the training began.
        evaluation_batches: the maximum number of batches of an evaluation; None: its whole input. Set by
            dry runs.
        env_steps: steps that an agent has taken in its environments since the training began. The agent's
            trainer advances it, also between the triggers of a step and the next step; 0 in other trainings.
        observed_env_steps: the value of `env_steps` at the triggers of the previous step. Periods in
            `env_steps` are due when a multiple lies between the two, so a resume does not affect them.
        stop: the `StopTraining` raised by a trigger of this step, after which no step follows; for
            `_after_triggers`. None if no trigger raised it.
        record: a function that records a time span of the run: name, category, begin and end in seconds of
            `time.perf_counter()`. None if time spans are not recorded. May be called from any thread.
        spent: measured seconds of this run by activity: "wait" for data, "save" while steps wait for a
            checkpoint.
        ended_by: the exception that ended the training, for `_after_train`: an error, or a `StopTraining`
            with the reason. None at other times, after all epochs, and in a loop that does not set it.
        triggers_due: whether the triggers at the end of the running epoch are pending.
        data_ended: whether the training data ended after the last finished step. Set by the trainer.
    """

    steps_per_epoch: int
    max_epoch: int | None = None
    starting_epoch: int = 1
    starting_step: int = 0
    epoch_num: int = attrs.field(default=attrs.Factory(lambda self: self.starting_epoch - 1, takes_self=True))
    local_step: int = -1
    global_step: int = 0
    evaluation_batches: int | None = None
    env_steps: int = 0
    observed_env_steps: int = 0
    stop: StopTraining | None = attrs.field(default=None, eq=False)
    record: Callable[[str, str, float, float], None] | None = attrs.field(default=None, eq=False, repr=False)
    spent: dict[str, float] = attrs.field(factory=dict, eq=False, repr=False)
    ended_by: BaseException | None = attrs.field(default=None, eq=False, repr=False)
    triggers_due: bool = attrs.field(default=False, eq=False, repr=False)
    data_ended: bool = attrs.field(default=False, eq=False, repr=False)

    @property
    def is_last_step(self) -> bool:
        """Whether the running step is the last one of its epoch."""
        return self.local_step == self.steps_per_epoch - 1

    @property
    def steps_left(self) -> int | None:
        """The number of steps after the running one, until the last epoch ends; None if there is no limit."""
        if self.max_epoch is None:
            return None
        return (
            (self.max_epoch - self.epoch_num) * self.steps_per_epoch
            + self.steps_per_epoch
            - 1
            - self.local_step
        )

    @property
    def env_steps_passed(self) -> tuple[int, int]:
        """The values of `env_steps` at the triggers of the previous step, and now."""
        return self.observed_env_steps, self.env_steps

    def spend(self, what: str, seconds: float) -> None:
        """Adds seconds to the time spent on an activity."""
        self.spent[what] = self.spent.get(what, 0.0) + seconds

    def state_dict(self) -> dict[str, Any]:
        """Returns the counters that a checkpoint keeps, as of the last finished step."""
        begun = self.epoch_num >= self.starting_epoch
        state = {
            "epoch_num": self.epoch_num if begun else self.starting_epoch,
            "local_step": self.local_step if begun else self.starting_step - 1,
            "global_step": self.global_step,
            "steps_per_epoch": self.steps_per_epoch,
        }
        if (self.triggers_due and self.is_last_step) if begun else self.starting_step >= self.steps_per_epoch:
            state["triggers_due"] = True
        if self.env_steps:
            state |= {"env_steps": self.env_steps, "observed_env_steps": self.observed_env_steps}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues after the last finished step of the run that made `state`.

        If `triggers_due` is set in it, all steps of the epoch are done, and its end runs first.
        """
        self.global_step = int(state["global_step"])
        self.env_steps = int(state.get("env_steps", 0))
        self.observed_env_steps = int(state.get("observed_env_steps", self.env_steps))
        epoch, next_step = int(state["epoch_num"]), int(state["local_step"]) + 1
        if state.get("triggers_due", False):
            next_step = self.steps_per_epoch
        elif next_step >= int(state["steps_per_epoch"]) or next_step >= self.steps_per_epoch:
            epoch, next_step = epoch + 1, 0
        self.starting_epoch, self.starting_step = max(epoch, 1), next_step
        self.epoch_num = self.starting_epoch - 1
        self.local_step = -1


class InferenceTower(Protocol):
    """A replica of the model for evaluation, with a separate input."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors of this replica by their names in the model."""

    def evaluate(self, fetches: Any) -> Iterator[tuple[Any, int]]:
        """Runs one whole pass of the input, each datapoint exactly once.

        Args:
            fetches: the fetches of each batch, any structure that `Session.run` takes.

        Yields:
            The fetched values of one batch, and the number of examples in it.
        """


class StatisticsStore(Protocol):
    """Stores the statistics that callbacks put, and returns them to other callbacks; see `Monitors`.

    Statistics have names such as "cost" or "validation_accuracy". Values belong to the loop's `global_step`.
    """

    def put_scalar(self, name: str, value: float | np.ndarray) -> None:
        """Records a number, or an array of one element."""

    def put_image(self, name: str, images: np.ndarray) -> None:
        """Records images: [height, width], [height, width, channels] or [number, height, width, channels]."""

    def put_histogram(self, name: str, values: np.ndarray) -> None:
        """Records the distribution of an array's values."""

    def put_summary(self, serialized: bytes) -> None:
        """Records the values of a serialized `tf.Summary`."""

    def put_message(self, text: str) -> None:
        """Records a line of text for the user."""

    def get_latest(self, name: str) -> float:
        """Returns the newest value of a scalar."""

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """Returns the values of a scalar as pairs (global_step, value), the oldest first."""

    def __contains__(self, name: str) -> bool:
        """Returns whether a scalar of this name has been put."""


class TrainerProtocol(Protocol):
    """The loop as callbacks see it."""

    @property
    def graph(self) -> tf.Graph:
        """The graph; ops may be added in `_setup_graph` only."""

    @property
    def sess(self) -> tf.Session:
        """The session, from `_before_train` on. Running input-dependent ops in it consumes a datapoint."""

    @property
    def coord(self) -> tf.train.Coordinator:
        """The coordinator: a thread reports its failure by `request_stop`, and the loop raises it."""

    @property
    def loop(self) -> LoopState:
        """The counters."""

    @property
    def monitors(self) -> StatisticsStore:
        """The store of statistics."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and events."""

    @property
    def log_dir(self) -> Path | None:
        """The directory of this run's files; None if it has none."""

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors or ops by name, looked up in the whole graph, then in the first training tower."""

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """Returns a function from input arrays to output arrays, on the model's current variables."""

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica for evaluation over `source`; call it in `_setup_graph`.

        Args:
            source: a DataFlow, or an InputSource that ends after one pass.
            name: name scope of the replica.
            devices: with several devices, one replica on each; they divide the datapoints of `source`, which
                must be a DataFlow, and act as one.
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns everything besides variables that a checkpoint must hold, as JSON values."""

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files to folders of a checkpoint, right after `state_dict()`.

        Args:
            directory: the parent of the folders; `Callbacks.save_files` creates it if there are any.
        """


@final
class StatisticWatch:
    """Follows one statistic. Its period may be longer than the reader's, so some reads find no new value.

    Args:
        name: name of the statistic.

    Attributes:
        seen_step: the step of the value that `next_value` returned last, -1 before the first. The reader
            saves it in its state, so that a resumed run uses no value twice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen_step = -1

    def value_at(self, statistics: StatisticsStore, global_step: int) -> float | None:
        """Returns the newest value if it was put at the given step, else None."""
        newest = self._newest(statistics)
        return newest[1] if newest is not None and newest[0] == global_step else None

    def next_value(self, statistics: StatisticsStore) -> float | None:
        """Returns the newest value if its step differs from that of the last call, else None."""
        newest = self._newest(statistics)
        if newest is None or newest[0] == self.seen_step:
            return None
        self.seen_step, value = newest
        return value

    def _newest(self, statistics: StatisticsStore) -> tuple[int, float] | None:
        return statistics.get_history(self.name)[-1] if self.name in statistics else None


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Returns whether a value is better than the best value so far.

    Args:
        value: the value; NaN is never better.
        best: the best value so far, or None.
        mode: "max" if higher is better, "min" if lower is.
        min_delta: the minimum improvement.

    Example:
        >>> is_better(0.5, 0.6, "min"), is_better(0.5, 0.6, "min", 0.2), is_better(0.5, None, "max")
        (True, False, True)
    """
    if math.isnan(value):
        return False
    return best is None or (value - best if mode == "max" else best - value) > min_delta


class HasState(Protocol):
    """An object with a state, such as a callback."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""


def state_of(callback: HasState) -> dict[str, Any]:
    """Returns the state of an object as a callback.

    If the object is also a flow, its `state_dict()` belongs to the flow, and the training's input saves and
    restores it. Its callback state comes from `callback_state_dict()` and is restored by
    `load_callback_state_dict(state)`; without these methods it has no callback state.
    """
    if not _is_flow(callback):
        return callback.state_dict()
    state: dict[str, Any] = getattr(callback, "callback_state_dict", dict)()
    return state


def load_state_of(callback: HasState, state: dict[str, Any]) -> None:
    """Restores the state of an object as a callback."""
    if not _is_flow(callback):
        callback.load_state_dict(state)
    elif hasattr(callback, "load_callback_state_dict"):
        callback.load_callback_state_dict(state)
    else:
        _log.info("%s is also a flow and has no callback state; ignoring the saved state.", callback)


def forget_state(callback: HasState, first: dict[str, Any] | None) -> dict[str, Any]:
    """Resets a callback to its first initial state, unless it already has it.

    Args:
        callback: the callback.
        first: the first initial state; None: the present state is the first.

    Returns:
        The first initial state, as a copy that no training changes.
    """
    state = state_of(callback)
    if first is None:
        return copy.deepcopy(state)
    if _differs(state, first):
        load_state_of(callback, copy.deepcopy(first))
    return first


def _differs(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one != other
    except ValueError:  # arrays in the state, which no checkpoint could save
        return True


def _is_flow(callback: HasState) -> bool:
    """Returns whether a callback is also a flow, judged by its methods: this wheel does not import flows."""
    return hasattr(callback, "__iter__") and hasattr(callback, "reset_state")
