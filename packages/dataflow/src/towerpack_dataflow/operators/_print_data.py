"""`PrintData`: prints the first datapoints of a flow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError
from ..flow._columns import Columns
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ._proxy_flow import ProxyDataFlow

__all__ = ["PrintData"]


class PrintData(ProxyDataFlow):
    """Prints structure, dtype, shape and range of the first datapoints of the first pass.

    It changes neither the datapoints nor any random numbers.

    Args:
        ds: the flow below.
        num: number of datapoints to print.
        name: label in the output; the name of `ds` by default.
        max_depth: number of nested containers to open.
        max_list: number of members to show of each container.

    Raises:
        ArgumentError: a number is not an integer above 0.
        ArgumentTypeError: `name` is not a string.

    Example:
        >>> _ = list(PrintData([[np.zeros((2, 3), "uint8"), 7]], name="mine"))
        mine, datapoint 1 of the first 1: list of 2
          0: array uint8 (2, 3), from 0 to 0
          1: int 7
    """

    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(
        self, ds: Any, num: int = 1, name: str | None = None, max_depth: int = 3, max_list: int = 3
    ) -> None:
        """Stores the arguments; prints nothing."""
        super().__init__(ds)
        self._num = arguments.count("num", num)
        if not isinstance(name, (str, type(None))):
            raise ArgumentTypeError(f"name is a string that labels the flow; received {name!r}")
        self._label = name or self.ds._name()
        self._max_depth = arguments.count("max_depth", max_depth)
        self._max_list = arguments.count("max_list", max_list)
        self._done = False

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        datapoints = self.ds._datapoints(self._below(epoch), start)
        if self._done:
            return datapoints
        self._done = True
        return chain(self._printed(datapoints), datapoints)

    def _columns(self) -> Columns | None:
        below = self.ds._columns() if self._done else None
        if below is None:
            return None
        return below._replace(gather=lambda epoch, wanted, out: below.gather(self._below(epoch), wanted, out))

    def _printed(self, datapoints: Iterator[Any]) -> Iterator[Any]:
        for number, datapoint in enumerate(islice(datapoints, self._num), 1):
            print(f"{self._label}, datapoint {number} of the first {self._num}: {self._text(datapoint)}")
            yield datapoint

    def _text(self, value: Any, depth: int = 1) -> str:
        if isinstance(value, (list, tuple, dict)):
            return self._container(value, depth)
        if isinstance(value, (np.ndarray, np.generic)):
            kind = "array" if isinstance(value, np.ndarray) else "NumPy scalar"
            return f"{kind} {value.dtype} {value.shape}{_range(np.asarray(value))}"
        if isinstance(value, (str, bytes)):
            return f"{type(value).__name__} of length {len(value)}: {value[:40]!r}"
        return f"{type(value).__name__} {str(value)[:40]}"

    def _container(self, value: Any, depth: int) -> str:
        outline = f"{type(value).__name__} of {len(value)}"
        if depth > self._max_depth:
            return outline
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        indent = "\n" + "  " * depth
        lines = [
            f"{indent}{key}: {self._text(part, depth + 1)}" for key, part in islice(pairs, self._max_list)
        ]
        if len(value) > self._max_list:
            lines.append(f"{indent}and {len(value) - self._max_list} more")
        return outline + "".join(lines)


def _range(array: np.ndarray) -> str:
    if array.dtype.kind not in "biuf" or array.size == 0:
        return ""
    return f", from {array.min()} to {array.max()}"
