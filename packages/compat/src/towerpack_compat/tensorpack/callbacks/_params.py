"""Hyperparameters, and the callbacks that set them: before training and after each epoch."""

from __future__ import annotations

import abc
import operator
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..utils import logger
from ._old_callback import Callback

__all__ = [
    "GraphVarParam",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "ObjAttrParam",
    "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
]


class HyperParam(abc.ABC):
    """A number controlled by a callback."""

    def setup_graph(self) -> None:
        """Creates the ops that set the value."""

    @abc.abstractmethod
    def set_value(self, v: float) -> None:
        """Sets the value."""

    @abc.abstractmethod
    def get_value(self) -> Any:
        """Returns the value."""

    @property
    def readable_name(self) -> str:
        """The name in messages."""
        return str(getattr(self, "_readable_name", type(self).__name__))


class GraphVarParam(HyperParam):
    """A scalar variable of the graph.

    Args:
        name: its name.
        shape: its shape.
    """

    def __init__(self, name: str, shape: Sequence[int] = ()) -> None:
        self.name, self.shape = name, shape
        self._readable_name, self.var_name = name.removesuffix(":0"), f"{name.removesuffix(':0')}:0"

    def setup_graph(self) -> None:
        found = [variable for variable in tf.global_variables() if variable.name == self.var_name]
        if not found:
            raise ValueError(f"{self.name} is not a variable in the graph!")
        self.var = found[0]

    def set_value(self, v: float) -> None:
        self.var.load(v, tf.get_default_session())

    def get_value(self) -> Any:
        return tf.get_default_session().run(self.var)


class ObjAttrParam(HyperParam):
    """An attribute of an object.

    Args:
        obj: the object.
        attrname: the attribute.
        readable_name: the name in messages; None: the name of the attribute.
    """

    def __init__(self, obj: Any, attrname: str, readable_name: str | None = None) -> None:
        self.obj, self.attrname = obj, attrname
        self._readable_name = readable_name or attrname

    def set_value(self, v: float) -> None:
        setattr(self.obj, self.attrname, v)

    def get_value(self) -> Any:
        return getattr(self.obj, self.attrname)


class HyperParamSetter(Callback, abc.ABC):
    """Sets a hyperparameter before training, and when it is triggered.

    Args:
        param: a `HyperParam`, or the name of a variable.
    """

    _chief_only = False
    _enable_before_train = True

    def __init__(self, param: HyperParam | str) -> None:
        self.param = GraphVarParam(param) if isinstance(param, str) else param
        assert isinstance(self.param, HyperParam), type(param)
        self._last_value: float | None = None
        self._last_epoch_set = -1

    def _setup_graph(self) -> None:
        self.param.setup_graph()

    def get_value_to_set(self) -> float | None:
        """Returns the value to set; None leaves the value unchanged."""
        value = self._get_value_to_set()
        if value is not None and value != self._last_value:
            if self.epoch_num != self._last_epoch_set:
                name, before = self.param.readable_name, self._last_value
                change = "is set" if before is None else f"changes from {before:.6f}"
                step = f"[HyperParamSetter] At global_step={self.global_step}"
                logger.info("%s, %s %s to %.6f", step, name, change, value)
            self._last_epoch_set, self._last_value = self.epoch_num, value
        return value

    @abc.abstractmethod
    def _get_value_to_set(self) -> float | None:
        """Returns the value to set; None leaves the value unchanged."""

    def get_current_value(self) -> Any:
        """Returns the value."""
        return self.param.get_value()

    def _trigger(self) -> None:
        self._set_param()

    def _before_train(self) -> None:
        if self._enable_before_train:
            self._set_param()

    def _set_param(self) -> None:
        value = self.get_value_to_set()
        if value is not None:
            self.param.set_value(value)


class HumanHyperParamSetter(HyperParamSetter):
    """Sets a hyperparameter from a file of lines `name:value`, which may change at any time.

    Args:
        param: a `HyperParam`, or the name of a variable.
        file_name: the file, in the logger's directory.
    """

    def __init__(self, param: HyperParam | str, file_name: str = "hyper.txt") -> None:
        super().__init__(param)
        self.file_name = os.path.join(str(logger.directory()), file_name)
        logger.info("Use %s to set hyperparam: '%s'.", self.file_name, self.param.readable_name)

    def _get_value_to_set(self) -> float | None:
        if not os.path.isfile(self.file_name):
            return None
        try:
            with open(self.file_name) as file:
                pairs = [line.strip().split(":") for line in file]
            return {name: float(value) for name, value in pairs}[self.param.readable_name]
        except (KeyError, ValueError):
            logger.warn("Cannot find %s in %s", self.param.readable_name, self.file_name)
            return None


class ScheduledHyperParamSetter(HyperParamSetter):
    """Sets a hyperparameter by a schedule.

    Args:
        param: a `HyperParam`, or the name of a variable.
        schedule: pairs of an epoch and the value after that epoch.
        interp: "linear" to interpolate between the pairs.
        step_based: whether the pairs contain steps instead of epochs.
        set_at_beginning: whether to set the scheduled value of the first epoch before the run.
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Sequence[tuple[int, float]],
        interp: str | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
    ) -> None:
        self.schedule = sorted(((int(a), float(b)) for a, b in schedule), key=operator.itemgetter(0))
        assert interp in (None, "linear"), interp
        self.interp, self._step, self._set_at_beginning = interp, step_based, set_at_beginning
        super().__init__(param)

    def _get_value_to_set(self) -> float | None:
        return self._get_value_to_set_at_point(self._current_point())

    def _current_point(self) -> int:
        return self.global_step if self._step else self.epoch_num

    def _check_value_at_beginning(self) -> None:
        value = None
        for point in range(self._current_point() + 1):
            value = self._get_value_to_set_at_point(point) or value
        actual = self.param.get_value()
        if value is None or np.isclose(value, actual):
            return
        values = f"'{self.param.readable_name}' should become {value:.7g}; it is {actual:.7g}"
        logger.warn("According to scheduler %s, %s.", self, values)
        if self._set_at_beginning:
            self.param.set_value(value)

    def _get_value_to_set_at_point(self, point: int) -> float | None:
        points, values = [at for at, _ in self.schedule], [value for _, value in self.schedule]
        if point in points:
            return values[points.index(point)]
        if self.interp is None or not points or not points[0] < point < points[-1]:
            return None
        return float(np.interp(point, points, values))

    def _before_train(self) -> None:
        super()._before_train()
        self._check_value_at_beginning()

    def _trigger_epoch(self) -> None:
        if not self._step:
            self.trigger()

    def _trigger_step(self) -> None:
        if self._step:
            self.trigger()

    def __str__(self) -> str:
        return f"ScheduledHyperParamSetter(schedule={self.schedule})"


class HyperParamSetterWithFunc(HyperParamSetter):
    """Sets a hyperparameter by a function of the number of finished epochs and the old value.

    Args:
        param: a `HyperParam`, or the name of a variable.
        func: takes the epoch and the old value, and returns the new one.
    """

    def __init__(self, param: HyperParam | str, func: Callable[[int, Any], float]) -> None:
        super().__init__(param)
        self.f = func

    def _get_value_to_set(self) -> float | None:
        return self.f(self.epoch_num, self.get_current_value())


class StatMonitorParamSetter(HyperParamSetter):
    """Changes a hyperparameter when a statistic stops improving.

    Args:
        param: a `HyperParam`, or the name of a variable.
        stat_name: the statistic.
        value_func: computes the new value from the old one.
        threshold: the minimal improvement.
        last_k: the number of observations in which it has to improve.
        reverse: whether an increase is an improvement.
    """

    _enable_before_train = False

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], float],
        threshold: float,
        last_k: int,
        reverse: bool = False,
    ) -> None:
        super().__init__(param)
        self.stat_name, self.value_func, self.threshold = stat_name, value_func, threshold
        self.history: deque[tuple[int, float]] = deque(maxlen=last_k)
        self.reverse = reverse
        self.last_changed_step = 0

    def _get_value_to_set(self) -> float | None:
        if self.stat_name not in self.trainer.monitors:
            logger.warn("[StatMonitorParamSetter] No history data available for key '%s'.", self.stat_name)
            return None
        last = self.trainer.monitors.get_history(self.stat_name)[-1]
        if self.history and last[0] == self.history[-1][0]:
            logger.warn("StatMonitorParamSetter is triggered, but no data has been added since last time.")
            return None
        self.history.append(last)
        if self.history.maxlen is None or len(self.history) < self.history.maxlen:
            return None
        values = [value for _, value in self.history]
        improved = values[0] + self.threshold if self.reverse else values[0] - self.threshold
        if max(values) > improved if self.reverse else min(values) < improved:
            return None
        self.history.clear()
        return self.value_func(self.get_current_value())
