"""How the steps of a training are divided into session calls."""

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
        run: makes one step, or `TrainingSteps.per_call` steps; returns one value per receiver, of the last.
        run_leading: makes all of these steps but the last; None where they are one.
        run_many: makes steps that no callback observes, at most so many, and returns how many; where one call
            for each is faster, minus the number of steps after which it shall be called again. It is None
            where that is never tried.
    """

    run: Callable[[], Sequence[Any]]
    run_leading: Callable[[], Any] | None = None
    run_many: Callable[[float], int] | None = None


class TrainingSteps(Protocol):
    """The ops of the steps, made while the graph can still be changed. `choose_steps` makes one.

    Attributes:
        default: the step that nearly all steps are.
        per_call: how many steps one run makes.
    """

    default: DefaultStep
    per_call: int

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
