"""Records the mean of a tensor's latest values."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..callback import Callback, StepFetch, check_count
from ..graph import as_names

__all__ = ["SimpleMovingAverage"]


@final
class SimpleMovingAverage(Callback):
    """Puts the mean of scalar tensors over the latest steps, as `<name>/SMA`.

    Args:
        names: names of scalar tensors.
        window_size: the number of steps.

    Raises:
        ValueError: the window is not a positive whole number.
    """

    def __init__(self, names: Sequence[str], window_size: int) -> None:
        self._given = as_names(names)
        check_count(f"SimpleMovingAverage(window_size={window_size!r})", window_size)
        self._names = [name.split(":")[0] for name in names]
        self._windows: list[deque[float]] = [deque(maxlen=window_size) for _ in names]

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._given)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._receive)]

    def _receive(self, values: list[Any]) -> None:
        for window, value in zip(self._windows, values):
            window.append(float(value))

    def _trigger(self) -> None:
        for name, window in zip(self.produces(), self._windows):
            if window:
                self.trainer.monitors.put_scalar(name, float(np.mean(window)))

    def produces(self) -> Sequence[str]:
        return [f"{name}/SMA" for name in self._names]

    def state_dict(self) -> dict[str, Any]:
        return {name: list(window) for name, window in zip(self._names, self._windows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, window in zip(self._names, self._windows):
            window.clear()
            window.extend(state.get(name, []))
