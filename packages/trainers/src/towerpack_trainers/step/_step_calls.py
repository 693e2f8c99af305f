"""The division of a training's steps into session calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import attrs
import tensorflow.compat.v1 as tf

from ._default_step import DefaultStep

__all__ = ["StepCalls", "TrainingSteps"]


@final
@attrs.frozen(eq=False)
class StepCalls:
    """The session calls that make a training's steps.

    Attributes:
        run: makes one step, or `TrainingSteps.per_call` steps; returns one value per receiver, of the last
            step.
        run_prologue: makes all of these steps except the last; None if there is only one.
        run_many: takes a limit, makes at most that many steps without observing callbacks, and returns their
            number. If single calls are faster, it returns minus the number of steps after which to call it
            again. None if fusing is never tried.
    """

    run: Callable[[], Sequence[Any]]
    run_prologue: Callable[[], Any] | None = None
    run_many: Callable[[float], int] | None = None


class TrainingSteps(Protocol):
    """The ops of the steps, made before the graph is final. `choose_steps` makes one.

    Attributes:
        default: the default step.
        per_call: the number of steps in one run.
    """

    default: DefaultStep
    per_call: int

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
