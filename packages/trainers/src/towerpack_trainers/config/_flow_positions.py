"""Saves the positions of the flows that a training reads, and restores them afterwards."""

from __future__ import annotations

from typing import Any, final

from towerpack_callbacks import Callback

__all__ = ["FlowPositions"]


@final
class FlowPositions(Callback):
    """Restores the positions of flows after a training.

    A flow continues from pass to pass during its lifetime. Without this callback, the data of a second
    training, such as the one after a dry run, would depend on the number of datapoints that the first one
    read. A flow that is `live` has no position and keeps its contents.
    """

    chief_only = False

    def __init__(self) -> None:
        self._found: list[tuple[Any, Any]] = []

    def note(self, flow: Any) -> None:
        """Saves the position of a flow, if it has one. Call it after seeding and before reading.

        Args:
            flow: a flow, or any other object, which is ignored.
        """
        if hasattr(flow, "load_state_dict") and not getattr(flow, "live", False):
            self._found.append((flow, flow.state_dict()))

    def put_back(self) -> None:
        """Restores the saved positions. Call it when no reader is left."""
        for flow, position in self._found:
            if position:
                flow.load_state_dict(position)

    def _after_train(self) -> None:
        self.put_back()
