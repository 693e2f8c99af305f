"""`WindowData`: stacks consecutive datapoints into sliding windows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, final

from .. import _argument_checks as arguments
from ..flow._epoch import Epoch
from ..flow._trace import Origin
from ..flow._user_code import origin_of_errors
from ..flow._written_flow import is_steady
from ..operators._proxy_flow import ProxyDataFlow
from ..storage import snapshot
from ._batch_division import hosts_of
from ._buffer_pool import BufferPool
from ._collate import Collator

__all__ = ["WindowData"]


@final
class WindowData(ProxyDataFlow):
    """Stacks each `size` consecutive datapoints, component by component: a sliding window.

    Window *k* holds the datapoints `k * stride` to `k * stride + size - 1`, stacked as in a batch; every
    window is full. For sequences, frames and time series. The flow is addressable if the flow below is, and
    no window crosses the end of a pass.

    Args:
        ds: the flow below.
        size: datapoints in a window.
        stride: distance between the first datapoints of successive windows.
        use_list: whether each component is a list of unstacked values.

    Raises:
        ArgumentError: a number is not an integer above 0.
        ArgumentTypeError: `use_list` is not a boolean.
        BatchError: datapoints cannot be stacked; raised while iterating.

    Example:
        >>> [numbers.tolist() for (numbers,) in WindowData([[0], [1], [2], [3], [4]], 3)]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        >>> [numbers.tolist() for (numbers,) in WindowData([[0], [1], [2], [3], [4]], 2, stride=3)]
        [[0, 1], [3, 4]]
    """

    def __init__(self, ds: Any, size: int, stride: int = 1, use_list: bool = False) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._size = arguments.count("size", size)
        self._stride = arguments.count("stride", stride)
        self._use_list = arguments.flag("use_list", use_list)

    def __len__(self) -> int:
        """Returns the number of windows in a pass."""
        return max(len(self.ds) - self._size + self._stride, 0) // self._stride

    @property
    def fixed_batch_size(self) -> int | None:
        """The size of a window; None if components are lists."""
        return None if self._use_list else self._size

    def identity(self) -> dict[str, bool | int | str]:
        """Returns size and stride of the windows, over all hosts."""
        hosts = hosts_of(self.ds)
        return {"size": self._size * hosts, "stride": self._stride * hosts}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = start * self._stride
        below = self.ds._datapoints(self._below(epoch), first)
        datapoints = below if is_steady(self.ds) else map(snapshot, below)
        memory = BufferPool()
        window: list[Any] = []
        with origin_of_errors(self):
            while True:
                window += islice(datapoints, self._size - len(window))
                if len(window) < self._size:
                    return
                yield self._stacked(window, first, memory)
                first += self._stride
                if self._stride > self._size:
                    skipped = self._stride - self._size
                    if sum(1 for _ in islice(datapoints, skipped)) < skipped:
                        return
                del window[: self._stride]

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return next(self._datapoints(epoch, index), None)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a window."""
        first, below = index * self._stride, self._below(epoch)
        return [Origin(self.ds, number, below) for number in range(first, first + self._size)]

    def _stacked(self, window: list[Any], first: int, memory: BufferPool) -> Any:
        collator = Collator(self._size, self._use_list, memory, first)
        for datapoint in window:
            collator.add(datapoint)
        return collator.take()

    def _name(self) -> str:
        return f"WindowData({self._size})"
