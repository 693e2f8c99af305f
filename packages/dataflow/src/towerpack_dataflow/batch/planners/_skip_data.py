"""`SkipData`: skips given datapoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ArgumentTypeError
from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._trace import Origin
from ...operators._proxy_flow import ProxyDataFlow
from ._planned_flow import one, require_addressable

__all__ = ["SkipData"]


@final
class SkipData(ProxyDataFlow):
    """Skips given datapoints; later ones move up, across the ends of passes.

    For a training run with a rising loss: return to a checkpoint before the rise, put `SkipData` over the
    flow, and resume. The flow is the same up to the first of the positions, with the same random numbers and
    states, so states from before them fit. Keep the `SkipData` from then on; positions further ahead may be
    added. A state from after a position counts without it, and fits only with it.

    Args:
        ds: an addressable flow.
        positions: indices of datapoints of `ds`, counted from epoch 0 on as in `state_at`.

    Raises:
        ArgumentError: a position is below 0, or `ds` has no datapoints.
        ArgumentTypeError: positions are not integers.
        NotAddressableError: `ds` is a stream.

    Example:
        >>> flow = SkipData(["a", "b", "c"], positions=[1, 5])
        >>> list(flow), list(flow)
        (['a', 'c', 'a'], ['b', 'a', 'b'])
    """

    addressable = True
    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(self, ds: Any, positions: Iterable[int]) -> None:
        """Sorts the positions."""
        super().__init__(ds)
        require_addressable(self.ds, "SkipData")
        found = sorted({arguments.position("a position", number) for number in _members(positions)})
        if found and found[0] < 0:
            raise ArgumentError(f"positions are counted from 0; received {found[0]}")
        if not len(self.ds):
            raise ArgumentError(f"SkipData skips datapoints, but {self.ds._name()} has none")
        # By the index of a datapoint in this flow: the number of positions before it.
        self._moved = np.array(found, dtype=np.int64) - np.arange(len(found))

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint at this index after skipping."""
        given = int(epoch) * len(self.ds) + index
        passed = int(np.searchsorted(self._moved, given, "right"))
        number, offset = divmod(given + passed, len(self.ds))
        return [Origin(self.ds, offset, self._below(epoch, 0, number))]

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return (self._datapoint(epoch, index) for index in range(start, len(self.ds)))

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        (origin,) = self.origins(epoch, index)
        return one(self.ds, origin.epoch, origin.index, self._name())  # type: ignore[arg-type]

    def _name(self) -> str:
        return f"SkipData({len(self._moved)} positions)"


def _members(positions: Any) -> Iterable[Any]:
    if isinstance(positions, (str, bytes)) or not isinstance(positions, Iterable):
        raise ArgumentTypeError(f"positions is an iterable of integers; received {positions!r}")
    return positions
