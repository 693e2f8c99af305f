"""Where a pass stands."""

from __future__ import annotations

from typing import Any

from ._epoch import Epoch


class Position:
    """The next datapoint that a consumer has not seen: `index` of `epoch`.

    One belongs to each iterator, and the flow at the root knows the youngest. `index` counts datapoints that
    came out, so it means the same for every kind of flow, and (seed, epoch, index) alone says everything.

    What an operator adds in `epoch.marks` only shortens the way: a mark says "so many datapoints of this
    epoch are out, and my child stands there". Without it the operator starts the epoch anew and drops what
    was seen. Only operators that cannot compute their child's place leave any.
    """

    __slots__ = ("epoch", "index", "started")

    def __init__(self, epoch: Epoch, index: int = 0) -> None:
        """A position at which no iterator has started yet."""
        self.epoch = epoch
        self.index = index
        self.started = False

    def finish(self, seed: int | None) -> None:
        """After the last datapoint: the beginning of the next epoch, with the seed the flow has by then."""
        self.epoch = self.epoch.following(seed)
        self.index = 0
        self.started = False

    def next_pass(self, seed: int | None) -> Position:
        """Where the next iterator starts: here if none has yet, else at the next epoch."""
        if self.started:
            return Position(self.epoch.following(seed))
        return Position(self.epoch, self.index)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no running iterator, so the next one starts right here.
        return Position, (self.epoch, self.index)
