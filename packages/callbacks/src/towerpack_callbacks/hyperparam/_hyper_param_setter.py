"""The base class of callbacks that set hyper-parameters."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ..callback import Callback
from ._hyper_param import GraphVarParam, HyperParam

__all__ = ["HyperParamSetter"]

_log = logging.getLogger("towerpack_callbacks")


class HyperParamSetter(Callback):
    """Sets a hyper-parameter before the training and at each trigger. Override `_value_now`.

    The last value survives a restart, for all kinds of parameters. A change is logged once per epoch.

    Args:
        param: the parameter, or the name of a scalar variable.

    Raises:
        TypeError: `param` is neither a `HyperParam` nor a name.
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
        if not _equal(self._last, self._logged):
            _log.info("%s is %s since step %d.", self.param.readable_name, self._last, self.global_step)
            self._logged = self._last

    def state_dict(self) -> dict[str, Any]:
        return {"value": np.asarray(self._last).tolist()} if self._last is not None else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = state.get("value")

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.param.readable_name!r})"


def _equal(one: Any, other: Any) -> bool:
    return np.array_equal(one, other)
