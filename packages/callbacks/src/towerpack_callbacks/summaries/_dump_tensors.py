"""Passes tensors of a step to Python functions, files and images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback import EVERY_EPOCH, EVERY_STEP, Callback, Every, StepFetch, as_every, output_directory
from ..graph import as_names
from ..writing import write_archive

__all__ = ["DumpTensorAsImage", "DumpTensors", "ProcessTensors"]


@final
class ProcessTensors(Callback):
    """Calls a function with the values of tensors in a step.

    The values are computed together with the step, from the same input.

    Args:
        names: names of the tensors.
        function: takes one value per name.
        every: at which steps.

    Raises:
        TypeError: the function is not callable.

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
        self._names = as_names(names)
        self._function = function
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, lambda values: self._function(*values), self._every)]


@final
class DumpTensors(Callback):
    """Writes the values of tensors in a step to `DumpTensor-<global_step>.npz` in the log directory.

    Types that NumPy does not have, such as bfloat16, become float32.

    Args:
        names: names of numeric tensors; each name is the key of its array.
        every: the period. Choose a long one, since each time adds a file.

    Raises:
        ValueError: (at set-up) the run has no log directory.
        TypeError: (at set-up) a tensor holds text.
    """

    def __init__(self, names: Sequence[str], every: Every | str = EVERY_STEP) -> None:
        self._names = as_names(names)
        self._every = as_every(every)

    def _setup_graph(self) -> None:
        self._dir = output_directory(self)
        self._tensors = self.trainer.get_tensors(self._names)
        texts = [tensor.name for tensor in self._tensors if tensor.dtype.base_dtype == tf.string]
        if texts:
            raise TypeError(
                f"DumpTensors writes tensors of numbers, received {', '.join(texts)} of text. Write them "
                "with ProcessTensors and a function."
            )

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._write, self._every)]

    def _write(self, values: list[Any]) -> None:
        self._dir.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.asarray(value) for name, value in zip(self._names, values)}
        # Not durable: waiting for the disk would delay each dumped step.
        write_archive(self._dir / f"DumpTensor-{self.global_step}.npz", arrays, durable=False)


@final
class DumpTensorAsImage(Callback):
    """Puts a tensor's value to the monitors as an image; it writes no files itself.

    The value is computed together with a step, from the same input.

    Args:
        name: name of the tensor.
        prefix: the image's name; None: the tensor's.
        map_func: converts the value to an image or images: [height, width], [height, width, channels] or
            [number, height, width, channels]. None: the value already is an image.
        scale: the factor from the values to 0…255.
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
