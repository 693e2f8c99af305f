"""Sets a hyper-parameter to the value of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ..callback import EVERY_EPOCH, Every, as_every
from ._hyper_param import HyperParam
from ._hyper_param_setter import HyperParamSetter

__all__ = ["HyperParamSetterWithFunc"]


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
        if not callable(func):
            raise TypeError(
                f"{self} takes a function of the number of finished epochs and the old value, "
                f"received {func!r}."
            )
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
