"""Bases for custom flows: `ProxyDataFlow` over another flow, `RNGDataFlow` with random numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._trace import Origin
from ..sources._from_iterable import as_dataflow

__all__ = ["ProxyDataFlow", "RNGDataFlow", "changed"]


class ProxyDataFlow(DataFlow):
    """Passes the datapoints of the flow below through; override the methods to change.

    Args:
        ds: a flow, a list, or any other object that can be iterated repeatedly.

    Attributes:
        ds: the flow below.

    Example:
        >>> class Doubled(ProxyDataFlow):
        ...     def __iter__(self):
        ...         for (number,) in self.ds:
        ...             yield [number * 2]
        >>> list(Doubled([[1], [2]]))
        [[2], [4]]
    """

    def __init__(self, ds: Any) -> None:
        """Converts `ds` to a flow if needed and stores it."""
        self.ds = as_dataflow(ds)

    def __len__(self) -> int:
        """Returns the length of the flow below."""
        return len(self.ds)

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: as in the flow below."""
        return self.ds.addressable

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return self.ds._datapoints(self._below(epoch), start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self.ds._datapoint(self._below(epoch), index)

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns the datapoint of the same index in the flow below."""
        return [Origin(self.ds, index, self._below(epoch))]

    def _below(self, epoch: Epoch, place: int = 0, number: int | None = None) -> Epoch:
        if place:
            return super()._below(epoch, place, number)
        return epoch.below(None if self.effect.keeps_place else 0, number, self.ds._seed)

    def children(self) -> tuple[DataFlow, ...]:
        """Returns the flow below."""
        return (self.ds,)


def changed(flow: ProxyDataFlow, **attributes: Any) -> ProxyDataFlow:
    """Returns a copy of `flow` with these attributes replaced."""
    other = object.__new__(type(flow))
    vars(other).update(vars(flow), **attributes)
    return other


class RNGDataFlow(DataFlow):
    """A stream with random numbers: `self.rng` is available while `__iter__` runs.

    Each pass gets a new generator, from the seed, the place in the tree and the epoch. An addressable flow
    uses `epoch.rng(index)` in its `datapoint()` instead.

    Attributes:
        rng: a `numpy.random.Generator`.

    Example:
        >>> class Noise(RNGDataFlow):
        ...     def __iter__(self):
        ...         for _ in range(3):
        ...             yield [self.rng.normal()]
        >>> one, two = Noise(), Noise()
        >>> one.seed(7), two.seed(7)
        (None, None)
        >>> list(one) == list(two)
        True
    """

    rng: np.random.Generator

    def _enter(self, epoch: Epoch) -> None:
        super()._enter(epoch)
        self.rng = epoch.rng()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the generator; each pass creates a new one."""
        return {key: value for key, value in super().__getstate__().items() if key != "rng"}
