"""The place of a datapoint: the next epoch and index, and random numbers as a pure function of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np

from ._resume_marks import Marks

__all__ = ["Epoch", "Position", "as_lists", "draw_seed"]


@final
class Epoch(int):
    """The number of a pass, with the flow's seed and its place in the tree.

    `DataFlow.datapoint(epoch, index)` receives one. It is an `int`. Its `rng()` returns the random numbers of
    this place, epoch and index: the same ones in any process and in any order of calls.

    Attributes:
        seed: the seed that is in effect here.
        path: child numbers on the way from the root of the tree to this flow.
        marks: shortcuts for resuming, shared by all flows of one pass; see `Position`.
        outer_epoch: the number of the enclosing pass under an endless repetition, in which epochs restart at
            0; else 0. With several such repetitions, their numbers combined into one.

    Example:
        >>> epoch = Epoch(3, seed=1)
        >>> epoch + 1
        4
        >>> bool(epoch.rng(7).random() == Epoch(3, seed=1).rng(7).random())
        True
    """

    seed: int
    path: tuple[int, ...]
    marks: Marks
    outer_epoch: int
    _key: Any  # a KeySequence

    def __new__(
        cls,
        number: int,
        seed: int = 0,
        path: tuple[int, ...] = (),
        marks: Marks | None = None,
        outer_epoch: int = 0,
    ) -> Epoch:
        """Makes the epoch `number` of the flow at `path`."""
        self = super().__new__(cls, number)
        self.seed = seed
        self.path = path
        self.marks = {} if marks is None else marks
        self.outer_epoch = outer_epoch
        self._key = None
        return self

    def rng(self, index: int | None = None) -> np.random.Generator:
        """Returns a new generator of this epoch's random numbers, or of those of datapoint `index` in it."""
        if self._key is None:
            from ._key_sequence import KeySequence  # imports numpy.random, which not every flow needs

            words = np.random.SeedSequence(self.seed, spawn_key=self._words())
            self._key = KeySequence(words.generate_state(2, np.uint64))
        # Philox is counter-based: the numbers of a datapoint are a distant region of the epoch's stream,
        # which costs a fifth of a newly seeded generator.
        region = [0, 0, 0, 0] if index is None else [0, 0, index, 1]
        return np.random.Generator(np.random.Philox(self._key.at(index), counter=region))

    def below(self, place: int | None, number: int | None = None, seed: int | None = None) -> Epoch:
        """Returns this epoch for child `place`; `None` stands for a child in this flow's own place."""
        return Epoch(
            int(self) if number is None else number,
            self.seed if seed is None else seed,
            self.path if place is None else (*self.path, place),
            self.marks,
            self.outer_epoch,
        )

    def inner(self) -> Epoch:
        """Returns epoch 0 of a count that belongs to this epoch alone.

        An endless repetition cannot number its child's epochs consecutively across passes. It counts them
        from 0 in each pass, and `outer_epoch` keeps their random numbers apart.
        """
        return Epoch(0, self.seed, self.path, self.marks, (self.outer_epoch << 32) + int(self))

    def inside(self, number: int, index: int | None = None, seed: int | None = None) -> Epoch:
        """Returns epoch 0 of a flow that has no place in the tree, for its pass inside this one.

        Args:
            number: number of the pass among those inside this one, or inside the making of one datapoint.
            index: index of that datapoint.
            seed: a seed that replaces this epoch's.
        """
        words = (*self._words(), 0 if index is None else index + 1, number)
        sequence = np.random.SeedSequence(self.seed if seed is None else seed, spawn_key=words)
        return Epoch(0, int(sequence.generate_state(1, np.uint64)[0]) >> 16)

    def following(self, seed: int | None = None) -> Epoch:
        """Returns the next epoch at this place, with separate marks."""
        seed = self.seed if seed is None else seed
        return Epoch(int(self) + 1, seed, self.path, as_lists(self.marks), self.outer_epoch)

    def _words(self) -> tuple[int, ...]:
        # The path's length and two words per number keep different places from spelling the same key.
        return (len(self.path), *self.path, int(self) % 2**32, int(self) >> 32, self.outer_epoch)

    @property
    def era(self) -> int:
        """Alias of `outer_epoch`."""
        return self.outer_epoch

    @property
    def identity(self) -> tuple[object, ...]:
        """Returns all values that random numbers of this epoch depend on."""
        return self.seed, self.path, self.outer_epoch, int(self)

    @property
    def key(self) -> str:
        """The name of this place among the marks: `"0.1"` is the second child of the first child."""
        return ".".join(map(str, self.path))


def draw_seed() -> int:
    """Draws a seed from the operating system; it has 48 bits, which every JSON reader keeps exact."""
    return int.from_bytes(os.urandom(6), "little")


@final
class Position:
    """The number of the next datapoint not yet seen by the consumer: `index` of `epoch`.

    Each iterator has one, and the flow at the root keeps that of the youngest. `index` counts yielded
    datapoints, so it means the same for every kind of flow, and (seed, epoch, index) is the whole state.

    The marks of operators in `epoch.marks` only save work: a mark holds the number of datapoints that an
    operator has yielded in this epoch and the number that its child has. Without a mark the operator restarts
    the epoch and drops the datapoints already seen. Only operators that cannot compute their child's place
    leave marks.
    """

    __slots__ = ("block", "epoch", "index", "started", "tree")

    block: Sequence[Marks]
    tree: Any

    def __init__(self, epoch: Epoch, index: int = 0) -> None:
        """Creates a position at which no iterator has started."""
        self.epoch = epoch
        self.index = index
        self.started = False
        self.block = ()  # the marks after each datapoint of the last block, if the flow has marks
        self.tree = None  # the flows as described in states; see `_flow_state`

    def finish(self, seed: int | None) -> None:
        """Moves from the last datapoint to the start of the next epoch, with the flow's current seed."""
        self.epoch = self.epoch.following(seed)
        self.index = 0
        self.block = ()
        self.started = False

    def next_pass(self, seed: int | None) -> Position:
        """Returns the start of the next iterator: here if none has started, else the next epoch."""
        if self.started:
            return Position(self.epoch.following(seed))
        return Position(self.epoch, self.index)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no running iterator, so its first one starts here.
        return Position, (self.epoch, self.index)


def as_lists(marks: Mapping[str, Iterable[int]]) -> Marks:
    """Copies marks in their current form as they are held in a state."""
    return {place: list(mark) for place, mark in marks.items()}
