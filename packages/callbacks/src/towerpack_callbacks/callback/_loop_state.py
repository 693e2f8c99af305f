"""The counters of the loop, which every callback may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from .._errors import StopTraining

__all__ = ["LoopState"]


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
