"""The source of the next datapoint: its epoch and index."""

from __future__ import annotations

from typing import Any, final

from ._epoch import Epoch

__all__ = ["Position"]


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

    __slots__ = ("epoch", "index", "started", "tree")

    tree: Any

    def __init__(self, epoch: Epoch, index: int = 0) -> None:
        """Creates a position at which no iterator has started."""
        self.epoch = epoch
        self.index = index
        self.started = False
        self.tree = None  # the flows as described in states; see `_flow_state`

    def finish(self, seed: int | None) -> None:
        """Moves from the last datapoint to the start of the next epoch, with the flow's current seed."""
        self.epoch = self.epoch.following(seed)
        self.index = 0
        self.started = False

    def next_pass(self, seed: int | None) -> Position:
        """Returns the start of the next iterator: here if none has started, else the next epoch."""
        if self.started:
            return Position(self.epoch.following(seed))
        return Position(self.epoch, self.index)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no running iterator, so its first one starts here.
        return Position, (self.epoch, self.index)
