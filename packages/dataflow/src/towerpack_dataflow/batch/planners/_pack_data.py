"""`PackData`: packs several sequences into one of fixed length."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError
from ._plan import Plan
from ._planned_flow import PlannedFlow

__all__ = ["PackData"]


@final
class PackData(PlannedFlow):
    """Packs whole sequences up to a capacity; best fit, longest first.

    Datapoints of equal length exchange places from epoch to epoch, so each pass has the same number of packs.

    Args:
        ds: an addressable flow that does not shuffle; this flow shuffles.
        lengths: lengths of the datapoints of `ds`, by index.
        capacity: upper limit of the sum of lengths in a pack.
        shuffle: whether each epoch has different packs in a different order.
        multiple_of: the number of packs is a multiple of this; see `BatchByBudget`.
        collate: makes a pack from the list of its datapoints; as in `PlannedFlow`.

    Attributes:
        padding_share: the unused share of the capacity of all packs, 0 to 1.

    Raises:
        ArgumentError: a single datapoint exceeds the capacity.
        ArgumentTypeError: `lengths` are not integers.
        NotAddressableError: `ds` is a stream.

    Example:
        >>> words = ["a", "bcde", "fg", "hij", "k"]
        >>> flow = PackData([[word] for word in words], [len(word) for word in words], 6, shuffle=False)
        >>> list(flow), round(flow.padding_share, 3)
        ([[['bcde', 'fg']], [['hij', 'a', 'k']]], 0.083)
    """

    def __init__(
        self,
        ds: Any,
        lengths: Any,
        capacity: int,
        *,
        shuffle: bool = True,
        multiple_of: int = 1,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        """Plans the packs of all epochs."""
        super().__init__(ds, lengths, shuffle, collate)
        self._capacity = arguments.count("capacity", capacity)
        if self._lengths.size and self._lengths.max() > self._capacity:
            where = int(self._lengths.argmax())
            raise ArgumentError(
                f"datapoint {where} has length {self._lengths[where]}, more than "
                f"capacity={capacity}; leave it out, truncate it, or set a larger capacity"
            )
        self._plan = _packed(self._lengths, self._capacity).divided(
            arguments.count("multiple_of", multiple_of)
        )
        room = len(self._plan) * self._capacity
        self.padding_share = 1 - int(self._lengths.sum()) / room if room else 0.0

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the settings of the plan."""
        return {**super().identity(), "capacity": self._capacity}

    def _name(self) -> str:
        return f"PackData({self._capacity})"


def _packed(lengths: np.ndarray, capacity: int) -> Plan:
    order = np.argsort(-lengths, kind="stable")
    descending = lengths[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = descending[1:] != descending[:-1]
    packs = _best_fit(descending.tolist(), capacity)
    slots = np.array([slot for pack in packs for slot in pack], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(pack) for pack in packs], dtype=np.int64)])
    return Plan(order, np.flatnonzero(fresh), slots, offsets)


def _best_fit(descending: list[int], capacity: int) -> list[list[int]]:
    """Puts each length into the pack with the least sufficient room."""
    packs: list[list[int]] = []
    by_room: dict[int, list[int]] = {}
    rooms: list[int] = []  # the rooms of existing packs, ascending
    for slot, length in enumerate(descending):
        place = bisect_left(rooms, length)
        if place == len(rooms):
            number, room = len(packs), capacity
            packs.append([])
        else:
            room = rooms[place]
            number = by_room[room].pop()
            if not by_room[room]:
                del by_room[room], rooms[place]
        packs[number].append(slot)
        left = room - length
        if left not in by_room:
            by_room[left] = []
            insort(rooms, left)
        by_room[left].append(number)
    return packs
