"""Random numbers as a function of (seed, place in the tree, epoch, index), and of nothing else."""

from __future__ import annotations

import os
from typing import final

import numpy as np

from ._resume_marks import Marks, as_lists

__all__ = ["Epoch", "draw_seed"]


@final
class Epoch(int):
    """The number of a pass, with the seed and the place in the tree that the pass has there.

    `DataFlow.datapoint(epoch, index)` receives one. It is an `int`: compare it, print it, compute with it.
    Its `rng()` gives the random numbers that belong to this place, epoch and index: the same ones in any
    process and in any order of calls.

    Attributes:
        seed: the seed that is in effect here.
        path: child numbers on the way from the root of the tree to this flow.
        marks: short-cuts for resuming, shared by one pass over the whole tree; see `Position`.
        outer_epoch: the number of the pass above in which epochs are counted anew, under an endless
            repetition; else 0. With several such repetitions, their numbers in one.

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
    _key: np.ndarray | None

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
            sequence = np.random.SeedSequence(self.seed, spawn_key=self._words())
            self._key = sequence.generate_state(2, np.uint64)
        # Philox is counter-based: a datapoint's numbers are a far-away region of the epoch's one stream,
        # reached at half the price of seeding anew.
        region = [0, 0, 0, 0] if index is None else [0, 0, index, 1]
        return np.random.Generator(np.random.Philox(key=self._key, counter=region))

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

        An endless repetition cannot number its child's epochs through from pass to pass. It counts them from
        0 in each pass, and `outer_epoch` keeps their random numbers apart.
        """
        return Epoch(0, self.seed, self.path, self.marks, (self.outer_epoch << 32) + int(self))

    def inside(self, number: int, index: int | None = None, seed: int | None = None) -> Epoch:
        """Returns epoch 0 of a flow that has no place in the tree, for its pass inside of this one.

        Args:
            number: which of the passes inside of this one it is, or inside of the making of a datapoint.
            index: of that datapoint.
            seed: a seed that counts instead of this epoch's.
        """
        words = (*self._words(), 0 if index is None else index + 1, number)
        sequence = np.random.SeedSequence(self.seed if seed is None else seed, spawn_key=words)
        return Epoch(0, int(sequence.generate_state(1, np.uint64)[0]) >> 16)

    def following(self, seed: int | None = None) -> Epoch:
        """Returns the next epoch at this place, with marks of its own."""
        seed = self.seed if seed is None else seed
        return Epoch(int(self) + 1, seed, self.path, as_lists(self.marks), self.outer_epoch)

    def _words(self) -> tuple[int, ...]:
        # The path's length and two words per number keep different places from spelling the same key.
        return (len(self.path), *self.path, int(self) % 2**32, int(self) >> 32, self.outer_epoch)

    @property
    def era(self) -> int:
        """Another name of `outer_epoch`."""
        return self.outer_epoch

    @property
    def identity(self) -> tuple[object, ...]:
        """Everything that random numbers of this epoch depend on."""
        return self.seed, self.path, self.outer_epoch, int(self)

    @property
    def key(self) -> str:
        """The name of this place among the marks: `"0.1"` is the second child of the first child."""
        return ".".join(map(str, self.path))


def draw_seed() -> int:
    """Draws a seed from the operating system; it has 48 bits, which every JSON reader keeps exact."""
    return int.from_bytes(os.urandom(6), "little")
