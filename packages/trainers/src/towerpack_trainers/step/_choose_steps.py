"""The choice between the ways to make steps, before the session exists."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StepCounter

from .._errors import ConfigError
from ._composite_step import CompositeStep, PrologueOps
from ._default_step import DefaultStep
from ._fixed_steps import FixedSteps, check_periods
from ._fused_steps import FusedSteps, TrainingSteps

__all__ = ["choose_steps"]


def choose_steps(
    train_op: tf.Operation,
    callbacks: Callbacks,
    loop: LoopState,
    counter: StepCounter,
    *,
    steps_per_run: int | None = None,
    own_step: str | None = None,
    may_fuse: bool = True,
    prologue: PrologueOps | None = None,
) -> TrainingSteps:
    """Chooses the number of steps in a session call, and adds the ops for it to the graph.

    Args:
        train_op: the op of one step.
        callbacks: the callbacks, set up.
        loop: the counters, with the number of epochs and of steps per epoch.
        counter: counts steps in the graph.
        steps_per_run: the number of steps in each call; None: one, or several if no callback observes them
            and that is faster.
        own_step: the name of the trainer class if it has its own `run_step`, which must be called for each
            step.
        may_fuse: False if there is another reason not to fuse steps.
        prologue: the ops that run before each step, as a part of it; None: none.

    Raises:
        ConfigError: several steps per call are requested, but the trainer, a period or the input needs one.
    """
    per_call = steps_per_run or 1
    if per_call > 1:
        if own_step is not None:
            raise ConfigError(
                f"steps_per_run={per_call} repeats the step in the graph, but {own_step} has its own "
                "run_step(). Use the run_step() of Trainer, or steps_per_run=1."
            )
        check_periods(per_call, callbacks, loop.steps_per_epoch)
    default = DefaultStep(train_op, callbacks.plan(callbacks.every_step_fetches), counter)
    if prologue is not None:
        if per_call > 1:
            raise ConfigError(
                f"steps_per_run={per_call} repeats a step that {prologue.wanted_by} makes of several. "
                "Remove steps_per_run: such a step is already one session call."
            )
        return CompositeStep(default, prologue, by_calls=own_step is not None)
    if may_fuse and steps_per_run is None and own_step is None and not callbacks.needs_every_step:
        epochs = (loop.max_epoch or 0) - loop.starting_epoch + 1
        fused = FusedSteps.of(default, epochs * loop.steps_per_epoch)
        if fused is not None:
            return fused
    return FixedSteps(default, per_call)
