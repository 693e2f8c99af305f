"""`RepeatedDataPoint`: repeats each datapoint several times."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import Any, final

from .. import _argument_checks as arguments
from ..flow._effect import Effect
from ..flow._epoch import Epoch
from ..flow._user_code import copy_container
from ..flow.provenance import Origin
from ._proxy_flow import ProxyDataFlow

__all__ = ["RepeatedDataPoint"]


@final
class RepeatedDataPoint(ProxyDataFlow):
    """Yields each datapoint of the flow below several times in a row; addressable if that flow is.

    The flow below makes it once. Each repetition has a copy of its list or dict, with the same arrays.

    Args:
        ds: the flow below.
        num: number of repetitions.

    Raises:
        ArgumentError: `num` is not an integer above 0.

    Example:
        >>> list(RepeatedDataPoint([["a"], ["b"]], 2))
        [['a'], ['a'], ['b'], ['b']]
    """

    effect = Effect(passes_on=True, steady=True)

    def __init__(self, ds: Any, num: int) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._num = arguments.count("num", num)

    def __len__(self) -> int:
        """Returns the number of datapoints with repetitions."""
        return len(self.ds) * self._num

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first, given = divmod(start, self._num)
        below = self.ds._datapoints(self._below(epoch), first)
        repeated = chain.from_iterable(map(repeat, below, repeat(self._num)))
        return map(copy_container, islice(repeated, given, None) if given else repeated)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self.ds._datapoint(self._below(epoch), index // self._num)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the repeated datapoint."""
        return [Origin(self.ds, index // self._num, self._below(epoch))]

    def _name(self) -> str:
        return f"RepeatedDataPoint({self._num})"
