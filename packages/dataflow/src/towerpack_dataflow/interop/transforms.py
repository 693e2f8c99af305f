"""Random transforms of other libraries, with the random numbers of the datapoint."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from ..runtime.worker._task_handler import get_worker_info

__all__ = ["seeded"]


def seeded(function: Callable[[Any], Any]) -> Callable[[Any, np.random.Generator], Any]:
    """Returns a function for `MapData(..., rng=True)` that repeats the random numbers of a transform.

    Libraries such as torchvision draw random numbers from the global generators of PyTorch, NumPy and Python;
    Albumentations keeps a generator in each pipeline. Before each call, these are seeded with numbers of
    (seed, epoch, index): a datapoint is the same in each worker and after resuming. Pipelines with a method
    `set_random_seed` are found if they are the function, or an attribute, a closure variable or a global
    variable of it. In the main process the global generators keep their states.

    Threads share the global generators, so use processes as workers.

    Args:
        function: called with a datapoint.

    Raises:
        ArgumentTypeError: `function` cannot be called.

    Example:
        >>> from towerpack_dataflow import DataFromList, MapData
        >>> def noisy(number):
        ...     return [number + random.random()]
        >>> def flow():
        ...     flow = MapData(DataFromList([1, 2]), seeded(noisy), rng=True)
        ...     flow.seed(3)
        ...     return flow
        >>> list(flow()) == list(flow())
        True
    """
    return _Seeded(arguments.function("seeded takes a function of a datapoint", function))


@final
class _Seeded:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._pipelines: list[Any] | None = None
        self.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)

    def __call__(self, datapoint: Any, rng: np.random.Generator) -> Any:
        if self._pipelines is None:
            self._pipelines = list(_pipelines(self._function))
        seed = int(rng.integers(2**32))
        if get_worker_info() is not None:
            self._seed(seed)
            return self._function(datapoint)
        with _kept_states():
            self._seed(seed)
            return self._function(datapoint)

    def _seed(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed)
        if (torch := sys.modules.get("torch")) is not None:
            torch.default_generator.manual_seed(seed)
        for pipeline in self._pipelines or ():
            pipeline.set_random_seed(seed)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pipelines": None}


@contextmanager
def _kept_states() -> Iterator[None]:
    """Restores the states of the global generators at the end."""
    torch = sys.modules.get("torch")
    own, numpy = random.getstate(), np.random.get_state()
    tensor = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(numpy)
        if torch is not None and tensor is not None:
            torch.set_rng_state(tensor)


def _pipelines(function: Any) -> Iterator[Any]:
    """Yields the transforms with their own generators that a function uses."""
    seen = set()
    for found in _parts(function):
        if id(found) not in seen and callable(getattr(found, "set_random_seed", None)):
            seen.add(id(found))
            yield found


def _parts(function: Any) -> Iterator[Any]:
    yield function
    owner = getattr(function, "__self__", None)
    for holder in (function, owner):
        yield from getattr(holder, "__dict__", {}).values()
    for cell in getattr(function, "__closure__", None) or ():
        yield cell.cell_contents
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    yield from (names[name] for name in getattr(code, "co_names", ()) if name in names)
