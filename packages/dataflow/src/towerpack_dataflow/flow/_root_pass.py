"""One pass over the root of a tree, with a count of its datapoints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from .._errors import StateError
from ._epoch import Position
from ._flow_state import position_of, walk
from ._node import Node
from ._user_code import explain, running

__all__ = ["begin", "lengths"]


class _Lengths(threading.local):
    of_first_host = False


lengths = _Lengths()
"""`lengths.of_first_host` makes `len()` of a part of an order that of the first, and so the longest, part."""


def begin(flow: Node) -> Iterator[Any]:
    """Starts the next pass with this flow as the root."""
    if not flow._ready:
        walk(flow)  # refuses a tree with a circle
        flow.reset_state()
        flow._ready = True
    outer = running.get()
    if outer is not None and not outer.places(flow):
        return _counted(flow, Position(outer.begin(flow)))
    # A seed set in the middle of a pass applies from the next one.
    flow._position = position_of(flow).next_pass(flow._seed)
    flow._position.started = True
    return _counted(flow, flow._position)


def _counted(flow: Node, position: Position) -> Iterator[Any]:
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
        if index > (most := _longest(flow)):
            raise StateError(
                f"the state says {index} datapoints of this epoch were seen, and {flow._name()} has {most}; "
                "load the state into a flow over the same data"
            )
        return iter(())
    return flow._datapoints(position.epoch, index)


def _longest(flow: Node) -> int:
    """Returns the length of a pass on the first host, which has the longest parts."""
    lengths.of_first_host = True
    try:
        return len(flow)
    finally:
        lengths.of_first_host = False
