"""One pass over the root of a tree, with a count of its datapoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._errors import StateError
from ._error_location import explain
from ._node import Node
from ._position import Position

__all__ = ["counted"]


def counted(flow: Node, position: Position) -> Iterator[Any]:
    """Runs one pass over the root of a tree: the only place where datapoints are counted."""
    try:
        index = position.index
        for datapoint in _rest(flow, position):
            # Count it before yielding it: while the consumer holds datapoint 7, the state says 8.
            index += 1
            position.index = index
            yield datapoint
            del datapoint  # its memory is for the next one
    except Exception as error:
        explain(error, flow, position)
        raise
    position.finish(flow._seed)


def _rest(flow: Node, position: Position) -> Iterator[Any]:
    """Returns the datapoints of a pass from a position on; the position must lie in this flow."""
    index = position.index
    if index and flow.addressable and index > len(flow):
        # All hosts of a state are at one index, and the shards of some hosts are longer by one.
        if index > (most := len(flow._on_first_host())):
            raise StateError(
                f"the state says {index} datapoints of this epoch were seen, and {flow._name()} has {most}; "
                "load the state into a flow over the same data"
            )
        return iter(())
    return flow._datapoints(position.epoch, index)
