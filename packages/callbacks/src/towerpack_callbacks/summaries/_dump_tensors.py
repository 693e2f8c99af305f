"""Brings tensors of a step to Python, to files, and to images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from ..callback import EVERY_EPOCH, EVERY_STEP, Callback, Every, StepFetch, as_every

__all__ = ["DumpTensorAsImage", "DumpTensors", "ProcessTensors"]


@final
class ProcessTensors(Callback):
    """Calls a function with the values that tensors have in a step.

    They are computed along with the step, from the same input.

    Args:
        names: names of the tensors.
        function: takes one value per name.
        every: at which steps.

    Raises:
        TypeError: the function cannot be called.

    Example:
        ```python
        ProcessTensors(["cost", "learning_rate"], lambda cost, rate: print(cost, rate), every="100 steps")
        ```
    """

    def __init__(
        self, names: Sequence[str], function: Callable[..., Any], every: Every | str = EVERY_STEP
    ) -> None:
        if not callable(function):
            raise TypeError(f"ProcessTensors takes a function of {len(names)} values, received {function!r}.")
        self._names = _as_names(names)
        self._function = function
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, lambda values: self._function(*values), self._every)]


@final
class DumpTensors(Callback):
    """Writes the values that tensors have in a step to `DumpTensor-<global_step>.npz` in the log directory.

    Args:
        names: names of the tensors; each is the key of its array.
        every: at which steps. Each step is much: a file for each.

    Raises:
        ValueError: (at set-up) the run has no log directory.
    """

    def __init__(self, names: Sequence[str], every: Every | str = EVERY_STEP) -> None:
        self._names = _as_names(names)
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._dir = _directory(self)
        self._tensors = self.trainer.get_tensors(self._names)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._write, self._every)]

    def _write(self, values: list[Any]) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = dict(zip(self._names, values))
        np.savez(self._dir / f"DumpTensor-{self.global_step}.npz", **arrays)


@final
class DumpTensorAsImage(Callback):
    """Puts a tensor's value to the monitors as an image, and nothing to the disk by itself.

    It is computed along with a step, from the same input.

    Args:
        name: name of the tensor.
        prefix: the image's name; None: the tensor's.
        map_func: turns the value into an image or images: [height, width], [height, width, channels] or
            [number, height, width, channels]. None: the value is one already.
        scale: what to multiply by, to get 0…255.
        every: at which steps.
    """

    def __init__(
        self,
        name: str,
        prefix: str | None = None,
        map_func: Callable[[Any], Any] | None = None,
        scale: float = 255.0,
        every: Every | str = EVERY_EPOCH,
    ) -> None:
        self._name = name
        self._prefix = name.split(":")[0] if prefix is None else prefix
        self._map_func = map_func
        self._scale = scale
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        (self._tensor,) = self.trainer.get_tensors([self._name])

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensor, self._put, self._every)]

    def _put(self, value: Any) -> None:
        images = np.asarray(value if self._map_func is None else self._map_func(value), np.float64)
        self.trainer.monitors.put_image(self._prefix, images * self._scale)


def _as_names(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"Expected a list of names, received one string: {names!r}. Write [{names!r}].")
    return list(names)


def _directory(callback: Callback) -> Path:
    if callback.log_dir is None:
        raise ValueError(f"{callback} has nowhere to write: give log_dir= to the run.")
    return callback.log_dir
