"""The place in a flow that the next datapoint comes from."""

from __future__ import annotations

from typing import Any, final

from ._epoch import Epoch

__all__ = ["Position"]


@final
class Position:
    """The number of the next datapoint that a consumer has not seen: `index` of `epoch`.

    Each iterator has one, and the flow at the root keeps that of the youngest. `index` counts datapoints that
    were handed out, so it means the same for every kind of flow, and (seed, epoch, index) is the whole state.

    The marks of operators in `epoch.marks` only shorten the way: a mark holds how many datapoints of this
    epoch an operator has given, and how many its child has. Without it the operator starts the epoch anew and
    drops the datapoints that were seen. Only operators that cannot compute their child's place leave marks.
    """

    __slots__ = ("epoch", "index", "started", "tree")

    tree: Any

    def __init__(self, epoch: Epoch, index: int = 0) -> None:
        """Makes a position at which no iterator has started yet."""
        self.epoch = epoch
        self.index = index
        self.started = False
        self.tree = None  # what states tell of the flows; see `_flow_state`

    def finish(self, seed: int | None) -> None:
        """Moves on from the last datapoint to the next epoch, with the seed that the flow has by then."""
        self.epoch = self.epoch.following(seed)
        self.index = 0
        self.started = False

    def next_pass(self, seed: int | None) -> Position:
        """Returns where the next iterator starts: here if none has yet, else at the next epoch."""
        if self.started:
            return Position(self.epoch.following(seed))
        return Position(self.epoch, self.index)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no running iterator, so its first one starts right here.
        return Position, (self.epoch, self.index)
