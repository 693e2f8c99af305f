"""Translates positions for another number of processes or batch size. Needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

from towerpack_dataflow import DataFlow, refit

from ._flow_protocol import in_itself, is_live

__all__ = ["RefittedState", "refit_position"]


@final
class RefittedState(NamedTuple):
    """A state translated for a source with other batches.

    Attributes:
        state: the state to load.
        was: datapoints in a batch of all processes together, when the state was saved.
        batch: datapoints in such a batch now.
        next_then: number of the next batch within the pass, when the state was saved.
        next_now: number of the next batch now.
        seen: datapoints of the pass that all processes together have already used.
    """

    state: dict[str, Any]
    was: int
    batch: int
    next_then: int
    next_now: int
    seen: int


def refit_position(flow: Any, state: Mapping[str, Any]) -> RefittedState | None:
    """Translates the state of a flow saved by a source for loading into another flow.

    Args:
        flow: the flow that the source reads.
        state: the state of a source over a flow with another number of shards or another batch size.

    Returns:
        The translated state, or None if the batches of either flow are unknown.

    Raises:
        towerpack_dataflow.StateError: the batches differ, and the flow does not divide data in a known order.
    """
    flow, position = in_itself(flow), state.get("flow")
    if not isinstance(flow, DataFlow) or is_live(flow) or not isinstance(position, Mapping):
        return None
    theirs, ours = _batches(position), _batches(flow.state_dict())
    place = next((place for place in ours if place in theirs), None)
    if place is None:
        return None
    was, batch, first = theirs[place], ours[place], int(position["index"])
    marked = place in position.get("marks", {})
    fitted = refit(flow, position) if was != batch or marked else dict(position)
    index = int(fitted["index"])
    # The last number of a batches' mark is the index of the first batch's first datapoint.
    [*_, seen] = fitted.get("marks", {}).get(place, [index * batch])
    return RefittedState({**state, "flow": fitted}, was, batch, first, index, int(seen))


def _batches(position: Mapping[str, Any]) -> dict[str, int]:
    """Returns the total batch sizes over all shards of the flows in a tree, by place, root first."""
    facts = position.get("flow") or {}
    return {place: fact["batch_size"] for place, fact in facts.items() if "batch_size" in fact}
