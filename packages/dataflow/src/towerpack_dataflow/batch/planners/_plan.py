"""`Plan`: groups of datapoints with fixed sizes and numbers, and other members in each epoch."""

from __future__ import annotations

from typing import final

import numpy as np

from ..._errors import ArgumentError
from ...flow._epoch import Epoch
from ...sources._permutation import Permutation

__all__ = ["EpochPlan", "Plan"]


@final
class Plan:
    """Assigns datapoints to groups.

    A plan divides slots. The datapoints in the slots of one class have lengths that are equal, or so close
    that the plan holds for any of them; so they exchange places from epoch to epoch, and the plan, its length
    and its padding stay the same. Making the plan costs one sort; an epoch has no setup cost.

    Args:
        order: the datapoint in each slot before the exchange; an integer array.
        starts: the first slot of each class, ascending from 0.
        slots: the slots of all groups, consecutive per group.
        offsets: the start of each group in `slots`, and the end of the last: one more than there are groups.

    Attributes:
        bounds: `starts`, and the end of the last class.
        single: whether a class has one slot, by class.
    """

    def __init__(self, order: np.ndarray, starts: np.ndarray, slots: np.ndarray, offsets: np.ndarray) -> None:
        """Stores the arrays."""
        self.order = order
        self.starts = starts
        self.bounds = np.append(starts, len(order))
        self.single = np.diff(self.bounds) == 1
        self.slots = slots
        self.offsets = offsets

    def __len__(self) -> int:
        """Returns the number of groups."""
        return len(self.offsets) - 1

    def sizes(self) -> np.ndarray:
        """Returns the number of datapoints in each group."""
        return np.diff(self.offsets)

    def divided(self, multiple_of: int) -> Plan:
        """Returns a plan with a multiple of this number of groups, by halving the largest groups.

        Raises:
            ArgumentError: there are too few datapoints.
        """
        offsets = self.offsets
        while missing := -(len(offsets) - 1) % multiple_of:
            sizes = np.diff(offsets)
            largest = np.argsort(-sizes, kind="stable")[:missing]
            largest = largest[sizes[largest] > 1]
            if not largest.size:
                raise ArgumentError(
                    f"multiple_of={multiple_of}: the plan has {len(self)} groups, and its {len(self.slots)} "
                    "datapoints are too few for the next multiple; use a smaller number"
                )
            middles = offsets[largest] + sizes[largest] // 2
            offsets = np.sort(np.concatenate([offsets, middles]))
        return Plan(self.order, self.starts, self.slots, offsets)


@final
class EpochPlan:
    """A plan in one epoch: the order of its groups and the datapoint in each slot.

    Args:
        plan: the plan of all epochs.
        epoch: source of the random numbers.
        shuffle: whether groups and datapoints exchange places.
    """

    def __init__(self, plan: Plan, epoch: Epoch, shuffle: bool) -> None:
        """Draws the order of the groups."""
        self._plan = plan
        self._epoch = epoch
        self._groups = Permutation(len(plan), epoch.rng()) if shuffle else None
        # The slot that each slot exchanges with, class by class as they are needed; large classes apart.
        self._exchanges = np.empty(len(plan.order), np.int64)
        self._drawn = plan.single.copy()
        self._large: dict[int, Permutation] = {}

    def members(self, index: int) -> list[int]:
        """Returns the datapoints of the group at `index`."""
        plan = self._plan
        number = index if self._groups is None else self._groups.at(index)
        slots = plan.slots[plan.offsets[number] : plan.offsets[number + 1]]
        if self._groups is not None:
            slots = self._exchanged(slots)
        members: list[int] = plan.order[slots].tolist()
        return members

    def _exchanged(self, slots: np.ndarray) -> np.ndarray:
        plan = self._plan
        classes = np.searchsorted(plan.bounds, slots, "right") - 1
        for number in np.unique(classes[~self._drawn[classes]]).tolist():
            self._draw(number)
        exchanged = np.where(plan.single[classes], slots, self._exchanges[slots])
        for place in np.flatnonzero(np.isin(classes, list(self._large))).tolist() if self._large else ():
            first = int(plan.bounds[classes[place]])
            exchanged[place] = first + self._large[int(classes[place])].at(int(slots[place]) - first)
        return exchanged

    def _draw(self, number: int) -> None:
        """Draws the order of a class."""
        first, stop = self._plan.bounds[number : number + 2].tolist()
        order = Permutation(stop - first, self._epoch.rng(number))
        if order.is_table:
            self._exchanges[first:stop] = first + order.indices(range(stop - first))
        else:
            self._large[number] = order
        self._drawn[number] = True
