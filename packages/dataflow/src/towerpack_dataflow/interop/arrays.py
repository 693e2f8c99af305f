"""`ArrayIterator`: a flow as a plain iterator of arrays, for JAX, NumPy and custom loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ComponentError, EmptyFlowError
from ..flow._flow import DataFlow
from ..sources._from_arrays import only_values
from ..sources._from_iterable import as_dataflow

__all__ = ["ArrayIterator"]


@final
class ArrayIterator(Iterator[Any]):
    """Yields datapoints as tuples or dicts of arrays, epoch after epoch.

    A list becomes a tuple and a number an array, so that each step has the same PyTree. Arrays are passed on
    without a copy. For data-parallel hosts, put a `ShardData` into the flow.

    Args:
        flow: the flow.
        epochs: number of passes; `None` for endless repetition.
        put: called with each tuple or dict, for example `jax.device_put`; its result is yielded instead.

    Raises:
        ArgumentError: `epochs` is neither an integer above 0 nor `None`.
        ComponentError: an array has a mask or a unit, or text ends in NULs; raised while iterating.
        EmptyFlowError: a pass of an endless iteration is empty; raised while iterating.

    Example:
        >>> from towerpack_dataflow import BatchData
        >>> batches = ArrayIterator(BatchData([[1, 0.5], [2, 1.5], [3, 2.5]], 3))
        >>> numbers, halves = next(batches)
        >>> numbers
        array([1, 2, 3], dtype=int32)
    """

    def __init__(self, flow: Any, epochs: int | None = None, put: Callable[[Any], Any] | None = None) -> None:
        """Stores the arguments; starts nothing."""
        self._flow: DataFlow = as_dataflow(flow)
        self._left = None if epochs is None else arguments.count("epochs", epochs, instead=", or None")
        self._put = put
        self._pass: Iterator[Any] | None = None
        self._empty_passes = 0

    def __next__(self) -> Any:
        """Returns the next datapoint."""
        while True:
            began = self._pass is None
            if self._pass is None:
                self._pass = self._next_pass()
            for datapoint in self._pass:
                arrays = _arrays(datapoint)
                return arrays if self._put is None else self._put(arrays)
            self._pass = None
            self._empty_passes = self._empty_passes + 1 if began else 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the flow's state: the position of the next datapoint not yet yielded."""
        return self._flow.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state` was taken; the resumed pass counts as one of `epochs`.

        Raises:
            StateError: `state` is not the state of such a flow.
        """
        self._flow.load_state_dict(state)
        self._pass = None

    def _next_pass(self) -> Iterator[Any]:
        if self._left == 0:
            raise StopIteration
        if self._left is not None:
            self._left -= 1
        elif self._empty_passes > 1:  # one may be the empty rest of a resumed pass
            raise EmptyFlowError(f"{self._flow._name()} yielded no datapoint in a whole pass")
        return iter(self._flow)


def _arrays(datapoint: Any) -> Any:
    if isinstance(datapoint, dict):
        return {key: _arrays(value) for key, value in datapoint.items()}
    if isinstance(datapoint, tuple) and hasattr(datapoint, "_make"):
        return datapoint._make(map(_arrays, datapoint))
    if isinstance(datapoint, (list, tuple)):
        return tuple(map(_arrays, datapoint))
    return _array(datapoint)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray) and not only_values(value):
        raise ComponentError(
            f"ArrayIterator yields plain arrays, without masks and units; received {type(value).__name__}. "
            "Use x.filled(0) or numpy.asarray(x) in a MapDataComponent below"
        )
    array: np.ndarray = np.asarray(value)
    if isinstance(value, (str, bytes)) and array.item() != value:
        raise ComponentError(
            f"ArrayIterator received {value!r}, and NumPy drops NULs at the end of text; convert it to an "
            "array of integers in a MapDataComponent below"
        )
    return array
