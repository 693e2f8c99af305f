"""Randomness as a function of (seed, place in the tree, epoch, index), never of who asks or when."""

from __future__ import annotations

import os

import numpy as np


class Epoch(int):
    """The number of a pass, which also knows the seed and the place in the tree it is for.

    `DataFlow.datapoint(epoch, index)` gets one. It is an `int`: compare it, print it, compute with it. Its
    `rng()` gives the random numbers that belong to this place, epoch and index, the same ones in whichever
    process, order or number of times they are asked for.

    Attributes:
        seed: the seed that counts here.
        path: child numbers on the way from the root of the tree to this flow.
        marks: short-cuts for resuming, shared by one pass over the whole tree; see `Position`.
        era: which pass of an endless repetition above this is in, where epochs are counted anew; else 0.

    Example:
        >>> epoch = Epoch(3, seed=1)
        >>> epoch + 1
        4
        >>> bool(epoch.rng(7).random() == Epoch(3, seed=1).rng(7).random())
        True
    """

    seed: int
    path: tuple[int, ...]
    marks: dict[str, list[int]]
    era: int
    _key: np.ndarray | None

    def __new__(
        cls,
        number: int,
        seed: int = 0,
        path: tuple[int, ...] = (),
        marks: dict[str, list[int]] | None = None,
        era: int = 0,
    ) -> Epoch:
        """Makes the epoch `number` of the flow at `path`."""
        self = super().__new__(cls, number)
        self.seed = seed
        self.path = path
        self.marks = {} if marks is None else marks
        self.era = era
        self._key = None
        return self

    def rng(self, index: int | None = None) -> np.random.Generator:
        """The generator of this epoch, or of datapoint `index` in it; a fresh one at each call."""
        if self._key is None:
            # The path's length and two words per number keep different places from spelling the same key.
            words = (len(self.path), *self.path, int(self) % 2**32, int(self) >> 32, self.era)
            sequence = np.random.SeedSequence(self.seed, spawn_key=words)
            self._key = sequence.generate_state(2, np.uint64)
        # Philox is counter-based: a datapoint's numbers are a far-away region of the epoch's one stream,
        # reached at half the price of seeding anew.
        region = [0, 0, 0, 0] if index is None else [0, 0, index, 1]
        return np.random.Generator(np.random.Philox(key=self._key, counter=region))

    def below(self, place: int | None, number: int | None = None, seed: int | None = None) -> Epoch:
        """The epoch as child `place` sees it; `None` as place: as if the child stood here itself."""
        return Epoch(
            int(self) if number is None else number,
            self.seed if seed is None else seed,
            self.path if place is None else (*self.path, place),
            self.marks,
            self.era,
        )

    def inner(self) -> Epoch:
        """Epoch 0 of an era that belongs to this epoch alone.

        Who repeats a flow without knowing how often cannot number the child's epochs through from pass to
        pass. It counts them from 0 in each, and the era keeps their random numbers apart.
        """
        return Epoch(0, self.seed, self.path, self.marks, (self.era << 32) + int(self))

    def following(self, seed: int | None = None) -> Epoch:
        """The next epoch at this place, with marks of its own."""
        marks = {key: list(mark) for key, mark in self.marks.items()}
        return Epoch(int(self) + 1, self.seed if seed is None else seed, self.path, marks, self.era)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that random numbers of this epoch depend on."""
        return self.seed, self.path, self.era, int(self)

    @property
    def key(self) -> str:
        """This place's name among the marks: `"0.1"` is the second child of the first child."""
        return ".".join(map(str, self.path))


def draw_seed() -> int:
    """A seed from the operating system; 48 bits, so that every JSON reader keeps it exact."""
    return int.from_bytes(os.urandom(6), "little")
