"""Callbacks that set hyper-parameters: by a schedule, a function, a file or a statistic."""

from __future__ import annotations

import bisect
import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from ..callback._callback import Callback
from ..callback._every import EVERY_EPOCH, EVERY_STEP, Every, as_every, check_count, check_function
from ..callback._trainer_protocol import StatisticWatch
from ._hyper_param import GraphVarParam, HyperParam

__all__ = [
    "HumanHyperParamSetter",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
]

_log = logging.getLogger("towerpack_callbacks")


class HyperParamSetter(Callback):
    """Sets a hyper-parameter before the training and at each trigger. Override `_value_now`.

    The last value survives a restart, for all kinds of parameters. A change is logged once per epoch.

    Args:
        param: the parameter, or the name of a scalar variable.

    Raises:
        TypeError: `param` is neither a `HyperParam` nor a name.

    Example:
        >>> class Halved(HyperParamSetter):
        ...     def _value_now(self):
        ...         return 0.1 * 0.5**self.epoch_num
        >>> callbacks = [Halved("learning_rate")]
    """

    chief_only = False

    def __init__(self, param: HyperParam | str) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        if not isinstance(param, HyperParam):
            raise TypeError(
                f"{type(self).__name__} takes a HyperParam or the name of a variable, received {param!r}."
            )
        self.param = param
        self._last: Any = None
        self._logged: Any = None

    # ---- overridden by subclasses

    def _value_now(self) -> Any:
        """Returns the value to set at this trigger; None to keep the current one."""
        raise NotImplementedError

    def _value_at_start(self, restored: Any) -> Any:
        """Returns the value to set before the first step; None to keep the current one.

        Args:
            restored: the value that this setter last set in the resumed run; None in a new run.
        """
        return restored

    # ---- implementation

    def _setup_graph(self) -> None:
        self.param.setup_graph(self.trainer)

    def _before_train(self) -> None:
        restored = self._logged = self._last  # a restored value is not a change
        self._set(self._value_at_start(restored))

    def _trigger(self) -> None:
        self._set(self._value_now())

    def _after_epoch(self) -> None:
        self._log_change()

    def _set(self, value: Any) -> None:
        if value is None:
            return
        self.param.set_value(value)
        self._last = value

    def _log_change(self) -> None:
        if not np.array_equal(self._last, self._logged):
            _log.info("%s is %s since step %d.", self.param.readable_name, self._last, self.global_step)
            self._logged = self._last

    def state_dict(self) -> dict[str, Any]:
        return {"value": np.asarray(self._last).tolist()} if self._last is not None else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = state.get("value")

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.param.readable_name!r})"


@final
class HyperParamSetterWithFunc(HyperParamSetter):
    """Sets a hyper-parameter to the result of a function.

    The function is called before the first step of a new run (with 0), and each time the period is due. A
    resumed run continues with its saved value, so that functions of the old value are not applied twice.

    Args:
        param: the parameter, or the name of a scalar variable.
        func: takes the number of finished epochs and the current value; returns the value to set, or None to
            keep it. If `every` counts steps or `env_steps`, it takes the number of finished steps of that
            kind. `over` converts a schedule to such a function.
        every: the period of the calls, in epochs, steps or `env_steps`.

    Raises:
        TypeError: `func` is not callable.
        PeriodError: `every` is in seconds.

    Example:
        ```python
        HyperParamSetterWithFunc("learning_rate", lambda epoch, old: old * 0.9)
        HyperParamSetterWithFunc("learning_rate", over(cosine(0.1, 0.0), total=9000), every="10 steps")
        HyperParamSetterWithFunc("entropy", over(polynomial(0.01), total=10**6), every="2048 env_steps")
        ```
    """

    def __init__(
        self,
        param: HyperParam | str,
        func: Callable[[int, Any], Any],
        every: Every | str = EVERY_EPOCH,
    ) -> None:
        super().__init__(param)
        check_function(f"{self} takes a function of the number of finished epochs and the old value", func)
        self._func = func
        self._every = as_every(every)
        self._every.due(0, 0, False)  # refuses seconds

    def step_period(self) -> Every | None:
        return self._every if self._every.epochs is None else None

    def epoch_period(self) -> Every | None:
        return self._every if self._every.epochs is not None else None

    def _trigger_step(self) -> None:
        self._trigger()

    def _trigger_epoch(self) -> None:
        # The loop itself handles a period in steps.
        if self._every.epochs is not None and self._every.due(self.global_step, self.epoch_num, True):
            self._trigger()

    def _value_now(self) -> Any:
        numbers = (
            (self._every.epochs, self.epoch_num),
            (self._every.steps, self.global_step),
            (self._every.env_steps, self.env_steps),
        )
        finished = next(number for period, number in numbers if period is not None)
        return self._func(finished, self.param.get_value())

    def _value_at_start(self, restored: Any) -> Any:
        return self._value_now() if restored is None else restored


@final
class HumanHyperParamSetter(HyperParamSetter):
    """Sets a hyper-parameter to its value in a text file, read at each trigger.

    A line of the file is `name: value`, with the name of `HyperParam.readable_name`; if a name occurs several
    times, the last line counts. Without the file or such a line, the parameter is unchanged. An unreadable
    line is logged, and training continues.

    Args:
        param: the parameter, or the name of a scalar variable.
        file_name: the file; in the log directory unless the path is absolute.

    Raises:
        ValueError: (at set-up) the path is relative, and the run has no log directory.

    Example:
        >>> callbacks = [HumanHyperParamSetter("learning_rate", "rates.txt")]
    """

    def __init__(self, param: HyperParam | str, file_name: str | Path = "hyper.txt") -> None:
        super().__init__(param)
        self._file_name = Path(file_name)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        if self.log_dir is None and not self._file_name.is_absolute():
            raise ValueError(
                f"{self} reads {str(self._file_name)!r} in the log directory, but the run has no log "
                "directory. Give log_dir= to the run, or an absolute path here."
            )
        self._path = self._file_name if self.log_dir is None else self.log_dir / self._file_name

    def _value_at_start(self, restored: Any) -> Any:
        written = self._value_now()
        return restored if written is None else written

    def _value_now(self) -> float | None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("%s cannot read %s: %s", self, self._path, error)
            return None
        value = None
        for number, line in enumerate(lines, 1):
            name, colon, text = line.rpartition(":")
            if colon and name.strip() == self.param.readable_name:
                try:
                    value = float(text)
                except ValueError:
                    _log.warning(
                        "%s: line %d of %s, %r, has no number after its colon.",
                        self,
                        number,
                        self._path,
                        line,
                    )
        return value


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


@final
class StatMonitorParamSetter(HyperParamSetter):
    """Changes a hyper-parameter when a statistic has not improved by a threshold in its last values.

    It collects `last_k` new values: if the smallest of them is not below the first by more than the
    threshold, the parameter changes and the collection starts again. Collected values survive a restart.

    Args:
        param: the parameter, or the name of a scalar variable.
        stat_name: name of the statistic; its producer must come before.
        value_func: maps the old value to the new one. It may raise `StopTraining`.
        threshold: the required improvement of the statistic.
        last_k: the number of values to compare.
        reverse: whether higher is better.

    Raises:
        TypeError: `value_func` is not callable.
        ValueError: `last_k` is not a whole number of at least 2; a single value cannot improve.

    Example:
        ```python
        StatMonitorParamSetter(
            "learning_rate", "validation_error", lambda old: old * 0.2, threshold=0.001, last_k=10
        )
        ```
    """

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], Any],
        threshold: float,
        last_k: int,
        reverse: bool = False,
    ) -> None:
        super().__init__(param)
        check_function(f"{self} takes a function of the old value", value_func)
        check_count(f"{self}: last_k={last_k!r}", last_k, at_least=2)
        self._watch = StatisticWatch(stat_name)
        self._value_func = value_func
        self._threshold = threshold
        self._sign = -1 if reverse else 1
        self._values: deque[float] = deque(maxlen=last_k)

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _value_now(self) -> Any:
        value = self._watch.next_value(self.trainer.monitors)
        if value is None:
            return None
        self._values.append(self._sign * value)
        if len(self._values) < (self._values.maxlen or 0):
            return None
        if min(self._values) < self._values[0] - self._threshold:
            return None
        self._values.clear()
        return self._value_func(self.param.get_value())

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "values": list(self._values), "seen": self._watch.seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._values.clear()
        self._values.extend(state["values"])
        self._watch.seen_step = state["seen"]
