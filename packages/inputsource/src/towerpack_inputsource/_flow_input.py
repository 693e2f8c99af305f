"""`FlowInput`: the base of sources that read a flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._source import InputSource
from .prefetch._flow_reader import (
    Position,
    RefittedState,
    as_flow,
    flow_size,
    is_endless,
    is_sharded,
    loaded_position,
    refit_position,
    seed_flow,
)

__all__ = ["FlowInput"]


class FlowInput(InputSource):
    """Reads a flow; abstract. Its position, seed and length are those of the flow."""

    def __init__(self, df: Iterable[Any], infinite: bool) -> None:
        self._flow = as_flow(df)
        self.infinite = infinite
        self._loaded: Position = None

    def seed(self, seed: int) -> None:
        """Seeds the flow, if it supports seeds."""
        seed_flow(self._flow, seed)

    @property
    def sharded(self) -> bool | None:
        """Whether the flow is one process's share of an order; None if unknown."""
        return is_sharded(self._flow)

    @property
    def endless(self) -> bool:
        """Whether the source restarts at the end of a pass, or passes of the flow never end."""
        return self.infinite or is_endless(self._flow)

    def size(self) -> int | None:
        """Returns the number of datapoints in one pass, or None if the flow has no length."""
        return flow_size(self._flow)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position; None for the beginning."""
        self._loaded = loaded_position(self._flow, state)

    def refit(self, state: Mapping[str, Any]) -> RefittedState | None:
        """Translates a state for other batches of the flow; see `InputSource.refit()`."""
        return refit_position(self._flow, state)

    def _flows_read(self) -> Sequence[Any]:
        return (self._flow,)
