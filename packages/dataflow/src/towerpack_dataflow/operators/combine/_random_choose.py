"""`RandomChooseData`: draws a flow at random for each datapoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError, UnknownLengthError
from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._resume_marks import replayed
from ._combined_flow import CombinedFlow

__all__ = ["RandomChooseData"]

_BLOCK = 1024
_TOLERANCE = 1e-6


@final
class RandomChooseData(CombinedFlow):
    """Draws a flow for each datapoint; a pass ends when the drawn flow has ended.

    The draws are a function of seed, epoch and index. Resuming repeats the draws, which costs some
    nanoseconds per datapoint, and starts each flow at its position: at once if it is addressable.

    Args:
        df_lists: the flows; or pairs of a flow and its probability, which sum to 1. Without probabilities all
            flows are equally likely.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty, or the probabilities are not numbers from 0 up with the sum 1.

    Example:
        >>> flow = RandomChooseData([([["a"]] * 100, 0.25), ([["b"]] * 100, 0.75)])
        >>> flow.seed(1)
        >>> letters = [letter for (letter,) in flow]
        >>> 0.2 < letters.count("a") / len(letters) < 0.3
        True
    """

    effect = Effect(passes_on=True, steady=True)

    def __init__(self, df_lists: Sequence[Any]) -> None:
        """Stores the arguments; reads nothing."""
        pairs = _pairs(df_lists)
        super().__init__(df_lists if pairs is None else [flow for flow, _ in pairs])
        count = len(self.df_lists)
        self._probabilities = [1 / count] * count if pairs is None else _checked([p for _, p in pairs])

    def __len__(self) -> int:
        """Always raises: the number of datapoints in a pass depends on the draws.

        Raises:
            UnknownLengthError: always.
        """
        raise UnknownLengthError._since(f"{self._name()} ends when one of its flows does")

    @property
    def addressable(self) -> bool:
        """Always false: the end of a pass depends on the draws."""
        return False

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if start and self._takes_turns():
            return replayed(self._name(), epoch, self._chosen(epoch, 0), start)
        return self._chosen(epoch, start)

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the probabilities."""
        return {"probabilities": ", ".join(f"{number:.9g}" for number in self._probabilities)}

    def _chosen(self, epoch: Epoch, start: int) -> Iterator[Any]:
        block, offset = divmod(start, _BLOCK)
        counts = np.zeros(len(self.df_lists), np.int64)
        for number in range(block):
            counts += self._count(self._draws(epoch, number))
        draws = self._draws(epoch, block)
        counts += self._count(draws[:offset])
        passes = self._passes(epoch, counts.tolist())
        while True:
            for place in draws[offset:].tolist():
                try:
                    datapoint = next(passes[place])
                except StopIteration:
                    return
                yield datapoint
            block, offset = block + 1, 0
            draws = self._draws(epoch, block)

    def _draws(self, epoch: Epoch, block: int) -> np.ndarray:
        """Returns the place of the flow for each datapoint of a block."""
        edges = np.cumsum(self._probabilities)
        # The last edge may lie a rounding error below 1, and a flow with the probability 0 has no room at
        # all.
        places: np.ndarray = np.searchsorted(edges / edges[-1], epoch.rng(block).random(_BLOCK), "right")
        return places

    def _count(self, draws: np.ndarray) -> np.ndarray:
        return np.bincount(draws, minlength=len(self.df_lists))


def _pairs(df_lists: Any) -> list[tuple[Any, float]] | None:
    """Returns the flows with their probabilities if `df_lists` consists of pairs."""
    if not isinstance(df_lists, (list, tuple)) or not df_lists:
        return None
    paired = [_is_pair(one) for one in df_lists]
    if any(paired) and not all(paired):
        raise ArgumentError(
            "RandomChooseData takes flows alone, or (flow, probability) pairs alone; "
            f"received {sum(paired)} pairs among {len(paired)}"
        )
    return [(flow, float(probability)) for flow, probability in df_lists] if all(paired) else None


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, (list, tuple)) and len(value) == 2
    return pair and _is_number(value[1]) and not _is_number(value[0])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _checked(probabilities: list[float]) -> list[float]:
    total = fsum(probabilities)
    if not all(number >= 0 for number in probabilities) or not abs(total - 1) <= _TOLERANCE:
        raise ArgumentError(
            f"RandomChooseData takes probabilities from 0 up with the sum 1; received {probabilities}, with "
            f"the sum {total:g}"
        )
    return probabilities
