"""Sets a hyper-parameter by a table of epochs or steps."""

from __future__ import annotations

import bisect
import itertools
import logging
from collections.abc import Sequence
from typing import Any, Literal, final

from ..callback import EVERY_EPOCH, EVERY_STEP, Every
from ._hyper_param import HyperParam
from ._hyper_param_setter import HyperParamSetter

__all__ = ["ScheduledHyperParamSetter"]

_log = logging.getLogger("towerpack_callbacks")


@final
class ScheduledHyperParamSetter(HyperParamSetter):
    """Sets a hyper-parameter at certain epochs or steps.

    A value takes effect after its epoch (or step); epoch 0 means before the first. It holds until the next
    entry. A resumed run gets the value at its position in the current schedule. Between changes, the setter
    does not touch the parameter, so that others may set it.

    Args:
        param: the parameter, or the name of a scalar variable.
        schedule: pairs of (number of finished epochs, value), in increasing order.
        interp: "linear" to interpolate linearly between entries. Before the first pair the parameter is
            unchanged; after the last pair the last value holds.
        step_based: whether the numbers are steps instead of epochs.
        env_step_based: whether the numbers are `env_steps` instead, steps of an agent in its environments.
        set_at_beginning: set the initial value before the first step.

    Raises:
        ValueError: the schedule is empty or not in increasing order, `interp` is unknown, or both kinds of
            steps are selected.

    Example:
        ```python
        ScheduledHyperParamSetter("learning_rate", [(0, 0.1), (82, 0.01), (123, 0.001)])
        ScheduledHyperParamSetter("clip", [(0, 0.2), (10**6, 0.0)], interp="linear", env_step_based=True)
        ```
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Sequence[tuple[int, float]],
        interp: Literal["linear"] | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
        env_step_based: bool = False,
    ) -> None:
        super().__init__(param)
        self._points, self._values = self._checked(schedule)
        if interp not in {None, "linear"}:
            raise ValueError(f'{self}: interp={interp!r}; expected None or "linear".')
        if step_based and env_step_based:
            raise ValueError(
                f"{self}: received step_based=True and env_step_based=True; expected one of them."
            )
        self._linear = interp == "linear"
        self._step_based, self._env_step_based = step_based, env_step_based
        self._set_at_beginning = set_at_beginning
        self._held: float | None = None  # the schedule's value at the last check

    def _checked(self, schedule: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
        try:
            points = [point for point, _ in schedule]
            values = [float(value) for _, value in schedule]
            ordered = bool(points) and all(a < b for a, b in itertools.pairwise(points))
        except (TypeError, ValueError):  # not pairs, or not numbers
            ordered = False
        if not ordered:
            raise ValueError(
                f"{self}: expected pairs of (epoch, value) in increasing order, received {schedule!r}. "
                "Write [(0, 0.1), (10, 0.01)]."
            )
        return points, values

    def value_at(self, finished: int) -> float | None:
        """Returns the value in effect after a number of epochs (or steps); None before the first entry."""
        position = bisect.bisect_right(self._points, finished) - 1
        if position < 0:
            return None
        value = self._values[position]
        if not self._linear or position + 1 == len(self._points):
            return value
        start, end = self._points[position : position + 2]
        return value + (self._values[position + 1] - value) * (finished - start) / (end - start)

    def step_period(self) -> Every | None:
        if self._env_step_based:
            return Every(env_steps=1)  # the steps with new environment steps
        return EVERY_STEP if self._step_based else None

    def epoch_period(self) -> Every | None:
        return None if self.step_period() else EVERY_EPOCH

    def _trigger_step(self) -> None:
        self._trigger()

    def _trigger_epoch(self) -> None:
        if self.epoch_period():
            self._trigger()

    def _value_now(self) -> Any:
        if self._env_step_based:
            return self._news_at(self.env_steps)
        return self._news_at(self.global_step if self._step_based else self.epoch_num)

    def _news_at(self, finished: int) -> float | None:
        value = self.value_at(finished)
        if value == self._held:
            return None
        self._held = value
        return value

    def _value_at_start(self, restored: Any) -> Any:
        self._held = None
        loop = self.trainer.loop
        # A step uses the count of `env_steps` before it, also the first step of a resumed run.
        value = self._news_at(loop.observed_env_steps) if self._env_step_based else self._value_now()
        if restored is not None and value is not None and value != restored:
            _log.warning("%s: was %s, but the schedule now gives %s.", self, restored, value)
        return value if self._set_at_beginning or restored is not None else None
