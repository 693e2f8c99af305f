"""`BatchByBudget`: batches within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError
from ._plan import Plan
from ._planned_flow import PlannedFlow

__all__ = ["BatchByBudget"]


@final
class BatchByBudget(PlannedFlow):
    """Makes batches that stay within a token budget after padding to their longest datapoint.

    Datapoints are taken in windows, sorted by length in each, and cut into batches of at most `max_tokens //
    (longest of the batch)`. A window is a random sample of all lengths, drawn by strata: each epoch has the
    same number of batches, and `len()` is exact. Each datapoint comes once per pass.

    **Hosts.** All hosts compute the same plan without communication. With `multiple_of` the number of hosts,
    or a multiple of it, `ShardData(batches, index, count)` has the same number of batches on every host.

    Args:
        ds: an addressable flow that does not shuffle; this flow shuffles.
        lengths: lengths of the datapoints of `ds`, by index.
        max_tokens: upper limit of `datapoints * longest` in a batch.
        window: number of datapoints sorted together; `None` for all, with the least padding. With a smaller
            window, the datapoints of a batch differ more from epoch to epoch.
        shuffle: whether each epoch has different batches in a different order.
        multiple_of: the number of batches is a multiple of this; the largest batches are halved to reach it.
        collate: as in `PlannedFlow`.

    Raises:
        ArgumentError: a number is invalid, or a single datapoint exceeds the budget.
        ArgumentTypeError: `lengths` are not integers.
        NotAddressableError: `ds` is a stream.

    Example:
        >>> words = ["a", "bcd", "ef", "ghi", "j"]
        >>> flow = BatchByBudget([[word] for word in words], [len(word) for word in words], 6, shuffle=False)
        >>> list(flow)
        [[['bcd', 'ghi']], [['ef', 'a', 'j']]]
        >>> round(flow.padding_share, 3)
        0.167
    """

    def __init__(
        self,
        ds: Any,
        lengths: Any,
        max_tokens: int,
        window: int | None = None,
        *,
        shuffle: bool = True,
        multiple_of: int = 1,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        """Plans the batches of all epochs."""
        super().__init__(ds, lengths, shuffle, collate)
        self._max_tokens = arguments.count("max_tokens", max_tokens)
        self._window = None if window is None else arguments.count("window", window, instead=", or None")
        self._multiple_of = arguments.count("multiple_of", multiple_of)
        if self._lengths.size and self._lengths.max() > self._max_tokens:
            where = int(self._lengths.argmax())
            raise ArgumentError(
                f"datapoint {where} has length {self._lengths[where]}, more than "
                f"max_tokens={max_tokens}; leave it out, truncate it, or set a larger budget"
            )
        self._plan = _planned(self._lengths, self._max_tokens, self._window).divided(self._multiple_of)

    @property
    def padding_share(self) -> float:
        """The largest possible share of padding in the tokens of a pass, 0 to 1; exact without a window."""
        plan = self._plan
        if not len(plan):
            return 0.0
        lengths = self._lengths[plan.order]
        classes = np.searchsorted(plan.starts, plan.slots, "right") - 1
        bounds = np.maximum.reduceat(lengths, plan.starts)[classes]
        padded = np.maximum.reduceat(bounds, plan.offsets[:-1]) * plan.sizes()
        return float(1 - lengths.sum() / max(padded.sum(), 1))

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the settings of the plan."""
        window = 0 if self._window is None else self._window
        return {**super().identity(), "max_tokens": self._max_tokens, "window": window}

    def _name(self) -> str:
        return f"BatchByBudget({self._max_tokens})"


def _planned(lengths: np.ndarray, max_tokens: int, window: int | None) -> Plan:
    """Plans by strata: window *w* holds the *w*-th datapoint of each run of `windows` datapoints."""
    order = np.argsort(-lengths, kind="stable")
    size = len(order)
    windows = 1 if window is None else max(size // window, 1)
    strata = size // windows
    longest = lengths[order[: strata * windows : windows]]
    cuts = _cuts(longest, max_tokens)
    rest = np.arange(
        strata * windows, size
    )  # fewer than there are windows, the shortest ones: separate batches
    rest_cuts = _cuts(lengths[order[rest]], max_tokens) + strata * windows
    slots = np.arange(strata * windows).reshape(strata, windows).T.ravel()
    offsets = (cuts[:-1] + np.arange(windows)[:, None] * strata).ravel()
    starts = np.concatenate([np.arange(0, strata * windows, windows), rest])
    return Plan(order, starts, np.concatenate([slots, rest]), np.concatenate([offsets, rest_cuts]))


def _cuts(descending: np.ndarray, max_tokens: int) -> np.ndarray:
    """Returns the starts of batches in descending lengths, and the end of the last."""
    room = (max_tokens // np.maximum(descending, 1)).tolist()
    cuts, place = [0], 0
    while place < len(room):
        place = min(place + room[place], len(room))
        cuts.append(place)
    return np.array(cuts)
