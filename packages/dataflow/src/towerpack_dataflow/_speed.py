"""`TestDataSpeed`: how fast a flow is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from . import _arguments as arguments
from ._errors import EmptyFlowError, explain
from ._proxy import ProxyDataFlow
from ._seeding import Epoch


class SpeedResult(NamedTuple):
    """What `TestDataSpeed` measured; as text, a line for people.

    Example:
        >>> print(SpeedResult(datapoints=500, seconds=2.0, bytes=3_000_000))
        500 datapoints in 2.00 s: 250 datapoints/s, 1.5 MB/s
    """

    datapoints: int
    seconds: float
    bytes: int

    @property
    def datapoints_per_second(self) -> float:
        """How many datapoints came in a second."""
        return self.datapoints / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """How many bytes of arrays, strings and numbers came in a second."""
        return self.bytes / self.seconds

    def __str__(self) -> str:
        """The line that `TestDataSpeed.start()` prints."""
        return (
            f"{self.datapoints} datapoints in {self.seconds:.2f} s: "
            f"{self.datapoints_per_second:.0f} datapoints/s, {self.bytes_per_second / 1e6:.1f} MB/s"
        )


class TestDataSpeed(ProxyDataFlow):
    """Measures the flow below, by `start()` or before its first pass; otherwise changes nothing.

    It measures one pass at most, the one that would come next, and leaves the position where it is.

    Args:
        ds: the flow below.
        size: how many datapoints to time.
        warmup: how many to take before that.

    Raises:
        ArgumentError: if `size` is not an integer above 0, or `warmup` not one from 0 up.

    Example:
        >>> result = TestDataSpeed([[1], [2], [3]], size=2).start()  # doctest: +ELLIPSIS
        TestDataSpeed: 2 datapoints in ...
        >>> result.datapoints
        2
    """

    __test__ = False  # for pytest, which takes every Test* for its own
    _transparent = True

    def __init__(self, ds: Any, size: int = 5000, warmup: int = 0) -> None:
        """Measures nothing yet."""
        super().__init__(ds)
        self._size = arguments.count("size", size)
        self._warmup = arguments.count("warmup", warmup, least=0)
        self._done = False

    def start(self) -> SpeedResult:
        """Takes the datapoints, prints a line, and returns the figures.

        Raises:
            EmptyFlowError: if there is nothing to time.
        """
        if not self._ready:
            self.reset_state()
        position = self._current()
        try:
            return self._measure(position.epoch)
        except Exception as error:
            explain(error, self, position)
            raise

    def _measure(self, epoch: Epoch) -> SpeedResult:
        self._done = True
        # Marks of its own: the real pass must not find the measured one's.
        datapoints = self.ds._datapoints(Epoch(epoch, epoch.seed, epoch.path), 0)
        warmed_up = sum(1 for _ in islice(datapoints, self._warmup))
        taken = size_in_bytes = 0
        begin = perf_counter()
        for datapoint in islice(datapoints, self._size):
            taken += 1
            size_in_bytes += _bytes(datapoint)
        seconds = max(perf_counter() - begin, 1e-9)
        if not taken:
            raise EmptyFlowError(
                f"nothing to time: {self.ds._name()} gave {warmed_up} datapoints, and warmup={self._warmup}"
            )
        result = SpeedResult(taken, seconds, size_in_bytes)
        print(f"TestDataSpeed: {result}")
        return result

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if not self._done:
            self._measure(epoch)
        return super()._datapoints(epoch, start)


def _bytes(value: Any) -> int:
    """Payload, not Python's overhead: a number counts for 8."""
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return 8
