"""A fixed number of steps in each session call: one, or `steps_per_run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StopTraining

from .._errors import ConfigError
from ._composite_step import copies_of, copy_after
from ._default_step import DefaultStep, compile_step
from ._fused_steps import StepCalls

__all__ = ["FixedSteps", "check_periods", "check_position"]


@final
class FixedSteps:
    """Makes several default steps in each session call; callbacks see the last of them.

    Args:
        default: the default step.
        per_call: the number of steps in one call.

    Raises:
        ConfigError: several steps are requested, but the step needs a feed.
    """

    def __init__(self, default: DefaultStep, per_call: int = 1) -> None:
        self.default = default
        self.per_call = per_call
        self._done: tf.Operation = default.done
        self._values: Sequence[Any] = default.values
        self._prologue_op: tf.Operation | None = None
        if per_call > 1:
            self._repeat()

    def __str__(self) -> str:
        return ""

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
        prologue = None if self._prologue_op is None else sess.make_callable(self._prologue_op)
        return StepCalls(compile_step(sess, self._done, self._values), run_prologue=prologue)

    def _repeat(self) -> None:
        """Puts all steps except the last into a loop, followed by the last one."""
        copies = copies_of(self.default, "steps_per_run")
        self._prologue_op = copies.loop(lambda done: done < self.per_call - 1, "prologue_steps").op
        self._done, self._values = copy_after(self._prologue_op, self.default, copies)


def check_periods(per_call: int, callbacks: Callbacks, steps_per_epoch: int) -> None:
    """Checks that every period ends with the last step of a session call.

    A callback that fetches a tensor at every step receives the values of every call's last step.

    Raises:
        ConfigError: a period, or the epoch, ends within a call.
    """
    if steps_per_epoch % per_call:
        raise ConfigError(
            f"steps_per_epoch={steps_per_epoch} is not a multiple of steps_per_run={per_call}, so an epoch "
            "would end within a session call. Change one of them."
        )
    for callback, every in callbacks.step_periods():
        if every.steps is not None and every.steps > 1 and every.steps % per_call:
            raise ConfigError(
                f"{callback} acts {every}, which is not a multiple of steps_per_run={per_call}, so it would "
                "be due within a session call. Change one of them."
            )


def check_position(per_call: int, loop: LoopState) -> None:
    """Checks that session calls end together with periods, from the position of a resumed training.

    Raises:
        ConfigError: a session call would end within a period.
        StopTraining: likewise, if the data ended there, within a call.
    """
    data_ended, loop.data_ended = loop.data_ended, False
    if loop.global_step % per_call or loop.starting_step % per_call:
        if data_ended:
            loop.data_ended = True
            raise StopTraining(
                f"its input ended there, within a call of steps_per_run={per_call}. With more data, continue "
                "with steps_per_run=1"
            )
        raise ConfigError(
            f"The checkpoint was written after {loop.global_step} steps, {loop.starting_step} of them in its "
            f"last epoch, which is not a multiple of steps_per_run={per_call}. Resume with a steps_per_run "
            "that divides both, or 1."
        )
