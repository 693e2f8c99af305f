"""Where a training has found the flows that it reads, and leaves them."""

from __future__ import annotations

from typing import Any, final

from towerpack_callbacks import Callback

__all__ = ["FlowPositions"]


@final
class FlowPositions(Callback):
    """Puts flows back, after a training, to where the training found them.

    A flow goes on from pass to pass for as long as it lives. Without this, what a second training reads of
    it, such as the one that follows a rehearsal, would depend on how much the first one had read. A flow
    that is `live` has no position, and keeps what it holds.
    """

    chief_only = False

    def __init__(self) -> None:
        self._found: list[tuple[Any, Any]] = []

    def note(self, flow: Any) -> None:
        """Notes where a flow is, if it can say so. Call it once the flow is seeded, before it is read.

        Args:
            flow: a flow, or anything else, which is left alone.
        """
        if hasattr(flow, "load_state_dict") and not getattr(flow, "live", False):
            self._found.append((flow, flow.state_dict()))

    def put_back(self) -> None:
        """Puts the flows back; nothing may read them then."""
        for flow, position in self._found:
            if position:
                flow.load_state_dict(position)

    def _after_train(self) -> None:
        self.put_back()
