"""Changes a hyper-parameter when a statistic stops improving."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from ..callback import StatisticWatch, check_count
from ._hyper_param import HyperParam
from ._hyper_param_setter import HyperParamSetter

__all__ = ["StatMonitorParamSetter"]


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
        if not callable(value_func):
            raise TypeError(f"{self} takes a function of the old value, received {value_func!r}.")
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
