"""`FilterData`: keeps the datapoints for which a function is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from .._errors import ArgumentTypeError
from ._map_data import MapData

__all__ = ["FilterData"]


@final
class FilterData(MapData):
    """Yields the datapoints for which a function is true; a stream of unknown length.

    Batches above stay full. A state holds the number of datapoints kept and the number read, so resuming over
    an addressable flow repeats no work.

    Args:
        ds: the flow below.
        predicate: called with a datapoint, which it must not change; with `rng=True` also with a
            `numpy.random.Generator`, seeded by (seed, place, epoch, index of the datapoint below).
        rng: whether `predicate` is called with a generator.

    Raises:
        ArgumentTypeError: `predicate` cannot be called, or `rng` is not a boolean; while iterating, the
            predicate is true for `None`.

    Example:
        >>> list(FilterData([[1], [2], [3]], lambda dp: dp[0] % 2 == 1))
        [[1], [3]]
    """

    def __init__(self, ds: Any, predicate: Callable[..., Any], *, rng: bool = False) -> None:
        """Stores the arguments; calls nothing."""
        self._predicate = predicate
        let_through = _LetThrough(predicate) if callable(predicate) else predicate
        super().__init__(ds, let_through, rng=rng, drops=True)


@final
class _LetThrough:
    """Adapts a predicate to a function that drops datapoints."""

    def __init__(self, predicate: Callable[..., Any]) -> None:
        self._predicate = predicate
        self.__qualname__ = getattr(predicate, "__qualname__", type(predicate).__name__)

    def __call__(self, datapoint: Any, *rng: np.random.Generator) -> Any:
        if not self._predicate(datapoint, *rng):
            return None
        if datapoint is None:
            raise ArgumentTypeError(
                "FilterData received the datapoint None and kept it, but None marks a dropped "
                "datapoint; let the flow below yield other datapoints, such as [None]"
            )
        return datapoint
