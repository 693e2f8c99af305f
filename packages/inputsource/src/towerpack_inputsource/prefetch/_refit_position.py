"""The position of a source, for other processes or batches of another size. Free of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

from towerpack_dataflow import DataFlow, refit

from ._flow_protocol import in_itself, is_live

__all__ = ["RefittedState", "refit_position"]


@final
class RefittedState(NamedTuple):
    """A source's state as this source goes on from it.

    Attributes:
        state: to be loaded.
        was: datapoints that a batch of all processes together had where the state was saved.
        batch: datapoints that it has now.
        next_then: number of the batch, within the pass, that was the next one where the state was saved.
        next_now: number of the batch that is the next one now.
        seen: datapoints of the pass, of all processes together, that have been given.
    """

    state: dict[str, Any]
    was: int
    batch: int
    next_then: int
    next_now: int
    seen: int


def refit_position(flow: Any, state: Mapping[str, Any]) -> RefittedState | None:
    """Translates what a source has saved of a flow into what it can load into this one.

    Args:
        flow: the flow that the source reads.
        state: of a source over such a flow, with another number of shards or another batch size.

    Returns:
        None where nothing is known of the batches of either.

    Raises:
        towerpack_dataflow.StateError: the batches differ, and their flow divides no data in a known order.
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
    # The mark of batches says which datapoint the first of them begins with, as its last number.
    [*_, seen] = fitted.get("marks", {}).get(place, [index * batch])
    return RefittedState({**state, "flow": fitted}, was, batch, first, index, int(seen))


def _batches(position: Mapping[str, Any]) -> dict[str, int]:
    """Returns the batch sizes of the flows in a tree, of all shards together, by place; the root's first."""
    facts = position.get("flow") or {}
    return {place: fact["batch_size"] for place, fact in facts.items() if "batch_size" in fact}
