"""Resume marks: what operators note during a pass, so that resuming need not begin at its start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

__all__ = ["Mark", "Marks", "as_lists"]

Marks = dict[str, Iterable[int]]
"""The marks of one pass over a whole tree by the place of the flow they belong to (see `Epoch.key`).

Either a flow's own `Mark`, which changes as the pass goes on, or, out of a loaded state, its numbers.
"""


class Mark:
    """How far one operator is in one pass; a state holds it as a list of integers, in the order of `fields`.

    Args:
        outer_epoch: of the `Epoch` that the mark is for.
        epoch: number of the operator's epoch.
    """

    __slots__ = ("epoch", "outer_epoch")

    fields: ClassVar[tuple[str, ...]] = ("outer_epoch", "epoch")

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Marks the beginning of an epoch."""
        self.outer_epoch = outer_epoch
        self.epoch = epoch

    @classmethod
    def from_list(cls, numbers: Iterable[int] | None) -> Self | None:
        """Returns the mark that `numbers` came from or are; `None` if they are no mark of this class.

        A state of another flow may have other marks at the same place; passes then start anew.
        """
        if numbers is None or isinstance(numbers, cls):
            return numbers
        values = list(numbers)
        if len(values) != len(cls.fields):
            return None
        mark = cls.__new__(cls)
        for name, value in zip(cls.fields, values, strict=True):
            setattr(mark, name, value)
        return mark

    def belongs_to(self, outer_epoch: int, epoch: int) -> bool:
        """Tells whether this mark was made in that epoch."""
        return self.outer_epoch == outer_epoch and self.epoch == epoch

    def __iter__(self) -> Iterator[int]:
        """Yields the numbers in the order of `fields`."""
        return iter([getattr(self, name) for name in self.fields])

    def __repr__(self) -> str:
        """Names the numbers."""
        numbers = ", ".join(f"{name}={getattr(self, name)}" for name in self.fields)
        return f"{type(self).__name__}({numbers})"


def as_lists(marks: Mapping[str, Iterable[int]]) -> Marks:
    """Copies marks as they are now, in the form that a state holds."""
    return {place: list(mark) for place, mark in marks.items()}
