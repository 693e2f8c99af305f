"""The one place where statistics are put, and from which they are read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import StatisticError
from .._loop_state import LoopState
from .._summary_ops import summary_tag
from ._monitor import Monitor

__all__ = ["Monitors"]


class Monitors:
    """Passes statistics to all monitors and keeps their history in memory.

    Args:
        monitors: who records.
        loop: the counters; what is put carries their `global_step`.

    Raises:
        TypeError: an element is no `Monitor`.
    """

    def __init__(self, monitors: Sequence[Monitor], loop: LoopState) -> None:
        for monitor in monitors:
            if not isinstance(monitor, Monitor):
                raise TypeError(f"monitors must be Monitor objects, received {monitor!r}.")
        self._monitors = tuple(monitors)
        self._loop = loop
        self._history: dict[str, list[tuple[int, float]]] = {}

    def __iter__(self) -> Iterator[Monitor]:
        return iter(self._monitors)

    def __contains__(self, name: str) -> bool:
        return name in self._history

    def put_scalar(self, name: str, value: float | np.ndarray) -> None:
        """Records one number under `name`.

        Raises:
            TypeError: the value is not a single number.
        """
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "buif":
            raise TypeError(
                f"put_scalar({name!r}) takes one number, received {array.dtype} of shape {array.shape}."
            )
        number = float(array.item())
        step = self._loop.global_step
        self._history.setdefault(name, []).append((step, number))
        for monitor in self._monitors:
            monitor.process_scalar(name, number, step)

    def put_summary(self, serialized: bytes) -> None:
        """Records a serialized `tf.Summary`, such as an evaluated summary op."""
        summary = tf.Summary.FromString(serialized)
        for value in summary.value:
            value.tag = summary_tag(value.tag)
        for monitor in self._monitors:
            monitor.process_summary(summary, self._loop.global_step)
        for value in summary.value:
            if value.HasField("simple_value"):
                self.put_scalar(value.tag, value.simple_value)

    def get_latest(self, name: str) -> float:
        """The last value put under `name`.

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        return self.get_history(name)[-1][1]

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """All values put under `name` in this run, as pairs (global_step, value).

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        if name not in self._history:
            known = ", ".join(sorted(self._history)) or "none"
            raise StatisticError(f"No statistic {name!r} was put yet. Put so far: {known}.")
        return list(self._history[name])
