"""The statistics of a run: their history, and the monitors that record them."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import StatisticError
from ..callback import LoopState
from ..summaries import summary_tag
from ._monitor import COUNTERS, Monitor
from ._tensorboard import histogram_summary, image_summary

__all__ = ["Monitors", "ScalarHistory"]


@final
class ScalarHistory(Monitor):
    """Keeps the newest values of each statistic; `Monitors` reads from it.

    Every checkpoint contains it, so a callback reads the same history after a restart.

    Args:
        limit: the minimum number of values kept per statistic; the maximum is twice as large.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._steps: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        if name not in self._steps:
            self._steps[name], self._values[name] = array("q"), array("d")
        steps, values = self._steps[name], self._values[name]
        steps.append(global_step)
        values.append(value)
        if len(steps) > 2 * self._limit:
            del steps[: self._limit], values[: self._limit]

    def names(self) -> list[str]:
        """Returns the names of the statistics, sorted."""
        return sorted(self._steps)

    def __contains__(self, name: str) -> bool:
        return name in self._steps

    def latest(self, name: str) -> float:
        """Returns the last value of a statistic."""
        return self._values[name][-1]

    def pairs(self, name: str) -> list[tuple[int, float]]:
        """Returns the pairs (global_step, value) of a statistic, oldest first."""
        return list(zip(self._steps[name], self._values[name]))

    def state_dict(self) -> dict[str, Any]:
        # Packed: exact for every float, and a tenth of the time and space of numbers in JSON.
        return {
            name: {"steps": _pack(steps, "<i8"), "values": _pack(self._values[name], "<f8")}
            for name, steps in self._steps.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = {name: array("q", _unpack(packed["steps"], "<i8")) for name, packed in state.items()}
        self._values = {name: array("d", _unpack(packed["values"], "<f8")) for name, packed in state.items()}


def _pack(numbers: array[Any], dtype: str) -> str:
    return base64.b64encode(np.asarray(numbers).astype(dtype).tobytes()).decode("ascii")


def _unpack(packed: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(packed), dtype).tolist()


@final
class Monitors:
    """Passes statistics to all monitors and keeps their history.

    Iterating yields the monitors that a loop must run among its callbacks: a `ScalarHistory`, which saves the
    history in checkpoints, then the given monitors.

    Args:
        monitors: the monitors that record the statistics.
        loop: the counters; each value is recorded with their `global_step`.

    Raises:
        TypeError: an element is not a `Monitor`.
    """

    def __init__(self, monitors: Sequence[Monitor], loop: LoopState) -> None:
        for monitor in monitors:
            if not isinstance(monitor, Monitor):
                raise TypeError(f"monitors must be Monitor objects, received {monitor!r}.")
        self._history = ScalarHistory()
        self._monitors = (self._history, *monitors)
        self._loop = loop

    def __iter__(self) -> Iterator[Monitor]:
        return iter(self._monitors)

    def __contains__(self, name: str) -> bool:
        return name in self._history

    def put_scalar(self, name: str, value: float | np.ndarray) -> None:
        """Records one number under `name`.

        Raises:
            TypeError: the value is not a single number, or the name is not a string.
            StatisticError: the name equals that of a counter in each row, or is not valid UTF-8.
        """
        _check_name(name)
        array = np.asarray(value)
        if array.size != 1 or not _is_real(array.dtype):
            raise TypeError(
                f"put_scalar({name!r}) takes one number, received {array.dtype} of shape {array.shape}."
            )
        number = float(array.reshape(-1)[0])
        step = self._loop.global_step
        for monitor in self._monitors:
            monitor.process_scalar(name, number, step)

    def put_message(self, text: str) -> None:
        """Records a line of text for the user; the console prints it."""
        for monitor in self._monitors:
            monitor.process_message(text)

    def put_image(self, name: str, images: np.ndarray) -> None:
        """Records one or more images.

        Args:
            name: the name of the images.
            images: shape [height, width], [height, width, channels] or [number, height, width, channels];
                1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels; values in 0…255.

        Raises:
            TypeError: the values are no numbers.
            ValueError: the shape is not one of these.
        """
        self._put(image_summary(name, images))

    def put_histogram(self, name: str, values: np.ndarray) -> None:
        """Records the distribution of numbers; non-finite values are ignored.

        Raises:
            TypeError: the values are no numbers.
            ValueError: none of the numbers is finite.
        """
        self._put(histogram_summary(name, values))

    def put_summary(self, serialized: bytes) -> None:
        """Records a serialized `tf.Summary`, such as an evaluated summary op."""
        summary = tf.Summary.FromString(serialized)
        for value in summary.value:
            value.tag = summary_tag(value.tag)
        self._put(summary)
        for value in summary.value:
            if value.HasField("simple_value"):
                self.put_scalar(value.tag, value.simple_value)

    def _put(self, summary: tf.Summary) -> None:
        for monitor in self._monitors:
            monitor.process_summary(summary, self._loop.global_step)

    def get_latest(self, name: str) -> float:
        """Returns the last value of the statistic `name`.

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        self._check_known(name)
        return self._history.latest(name)

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """Returns the values of `name` as pairs (global_step, value), also from before a restart.

        At least the newest 10,000 values of each statistic are kept; files contain all of them.

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        self._check_known(name)
        return self._history.pairs(name)

    def _check_known(self, name: str) -> None:
        if name not in self._history:
            known = ", ".join(self._history.names()) or "none"
            raise StatisticError(f"The statistic {name!r} has no value yet. Statistics with values: {known}.")


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"put_scalar({name!r}): expected a string as the name of a statistic.")
    if name in COUNTERS:
        raise StatisticError(
            f"put_scalar({name!r}): each row of statistics has a counter of this name. Give the statistic "
            "another name."
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise StatisticError(
            f"put_scalar({name!r}): the name cannot be written as UTF-8: {error}."
        ) from error


def _is_real(dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "V":
        return dtype.kind in "buif"
    try:
        known = tf.as_dtype(dtype)  # bfloat16 and other types that NumPy lacks
    except TypeError:
        return False
    return bool(known.is_floating or known.is_integer)
