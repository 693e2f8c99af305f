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
    """

    def __init__(self, order: np.ndarray, starts: np.ndarray, slots: np.ndarray, offsets: np.ndarray) -> None:
        """Stores the arrays."""
        self.order = order
        self.starts = starts
        self.bounds = np.append(starts, len(order))
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
        self._members: dict[int, Permutation] = {}

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
        bounds = self._plan.bounds
        classes = np.searchsorted(bounds, slots, "right") - 1
        firsts = bounds[classes]
        sizes = bounds[classes + 1] - firsts
        exchanged = slots.copy()
        for place in np.flatnonzero(sizes > 1).tolist():
            first = int(firsts[place])
            order = self._order(int(classes[place]), int(sizes[place]))
            exchanged[place] = first + order.at(int(slots[place]) - first)
        return exchanged

    def _order(self, number: int, size: int) -> Permutation:
        order = self._members.get(number)
        if order is None:
            order = self._members[number] = Permutation(size, self._epoch.rng(number))
        return order
