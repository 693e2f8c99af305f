"""Runs user code that makes datapoints: copies its containers and gives inner passes a place.

A flow that another one holds has a place in the tree, which gives it seeds, epochs and states. A flow reached
in another way (built on the spot, from a closure or a global, held where the search for flows does not look)
has none. A pass over it starts with random numbers that belong to the enclosing pass, which therefore stays a
function of seed, epoch and index.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._epoch import Epoch
from ._error_location import blame
from ._node import Node

__all__ = ["InnerPasses", "copy_container", "copy_containers", "innermost_pass", "run_one", "run_pass"]

_CONTAINERS = frozenset({list, dict})


def copy_container(datapoint: Any) -> Any:
    """Returns `datapoint`, or a shallow copy if it is a list or dict that its source may still hold."""
    return datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint


def copy_containers(chunk: list[Any]) -> list[Any]:
    """Copies the lists and dicts among many datapoints; almost free without any."""
    if _CONTAINERS.isdisjoint(map(type, chunk)):
        return chunk
    return [datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint for datapoint in chunk]


class InnerPasses(NamedTuple):
    """The passes started inside one pass, or inside the making of one datapoint.

    Attributes:
        flow: the flow of that pass or datapoint.
        epoch: epoch of that pass.
        number: index of the datapoint; `None` in a pass.
        begun: the flows over which a pass has started.
    """

    flow: Node
    epoch: Epoch
    number: int | None
    begun: list[Node]

    def places(self, flow: Node) -> bool:
        """Tells whether the running pass has set the epoch of `flow`: its children, if it is a stream."""
        return self.number is None and any(child is flow for child in self.flow._children())

    def begin(self, flow: Node) -> Epoch:
        """Returns the epoch of one more pass over a flow without an epoch from the running pass."""
        self.begun.append(flow)
        return self.epoch.inside(len(self.begun), self.number, _given_seed(flow))

    def numbered(self, flow: Node, epoch: int) -> Epoch:
        """Returns the epoch with that number for a flow of which one datapoint is requested."""
        for place, child in enumerate(self.flow._children()):
            if child is flow:
                return self.flow._below(self.epoch, place, epoch)
        return self.epoch.below(None, epoch, _given_seed(flow))


def run_pass(
    flow: Node, epoch: Epoch, produce: Callable[[], Iterator[Any]], begun: list[Node]
) -> Iterator[Any]:
    """Yields the datapoints of user code; its errors name `flow`; copies lists and dicts."""
    try:
        for datapoint in produce():
            if type(datapoint) in _CONTAINERS:
                datapoint = datapoint.copy()  # without the original, arrays look unshared
            yield datapoint
    except Exception as error:
        blame(error, flow)
        raise


def run_one(
    flow: Node, epoch: Epoch, index: int, produce: Callable[[Any, Epoch, int], Any], begun: list[Node]
) -> Any:
    """Makes one datapoint by user code."""
    return produce(flow, epoch, index)


_PASS, _ONE = run_pass.__code__, run_one.__code__


def innermost_pass() -> InnerPasses | None:
    """Returns the innermost pass of user code that this thread is running.

    It inspects the stack, which holds a generator only while it runs. A record kept instead would add a cost
    to each datapoint; this adds one to each pass.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _PASS or frame.f_code is _ONE:
            here = frame.f_locals
            return InnerPasses(here["flow"], here["epoch"], here.get("index"), here["begun"])
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _given_seed(flow: Node) -> int | None:
    """Returns the seed given to `flow`; ignores a seed that the flow has drawn for its own passes."""
    return None if flow._seed_drawn else flow._seed
