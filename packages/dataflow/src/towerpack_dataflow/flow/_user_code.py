"""Runs user code that makes datapoints: copies containers, gives inner passes a place, and locates errors.

A flow that another one holds has a place in the tree, which gives it seeds, epochs and states. A flow reached
in another way (built on the spot, from a closure or a global, held where the search for flows does not look)
has none. A pass over it starts with random numbers that belong to the enclosing pass, which therefore stays a
function of seed, epoch and index. A context variable holds the user code that is running for this purpose:
each pass runs in a context of that variable, so the value is exact while a generator runs, and only then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, copy_context
from itertools import pairwise, repeat
from typing import Any, final

from ._epoch import Epoch, Position
from ._node import Node

__all__ = [
    "UserCode",
    "copy_container",
    "copy_containers",
    "drain",
    "error_path",
    "explain",
    "origin_of_errors",
    "record_origin",
    "run_pass",
    "running",
]

_ORIGIN = "_towerpack_origin"


def record_origin(error: Exception, flow: Node) -> None:
    """Records `flow` as the origin of `error`, unless a flow further down is recorded already."""
    if not hasattr(error, _ORIGIN):
        # An exception class may forbid attributes; the message then names the root only.
        with contextlib.suppress(AttributeError):
            setattr(error, _ORIGIN, flow)


@final
class origin_of_errors:
    """Records a flow as the origin of an error in a block; for a pass, not for each datapoint."""

    __slots__ = ("_flow",)

    def __init__(self, flow: Node) -> None:
        self._flow = flow

    def __enter__(self) -> None:
        """Begins the block."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Records the flow."""
        if isinstance(error, Exception):
            record_origin(error, self._flow)


def explain(error: Exception, root: Node, position: Position) -> None:
    """Adds a note with the path from `root` to the recorded flow and the datapoint being made.

    The type of the error is unchanged.
    """
    culprit = vars(error).pop(_ORIGIN, root)
    names = " > ".join(flow._name() for flow in _path(root, culprit))
    # An exception class may forbid attributes, and with them notes: the error is then raised without a note.
    with contextlib.suppress(AttributeError):
        error.add_note(
            f"in the flow {names}, while making datapoint {position.index} of epoch {int(position.epoch)}"
        )


def error_path(error: BaseException, root: Node) -> tuple[int, ...]:
    """Returns the child numbers on the way from `root` to the recorded flow, and removes the record."""
    culprit = vars(error).pop(_ORIGIN, root)
    path = _path(root, culprit)
    return tuple(list(flow.children()).index(child) for flow, child in pairwise(path))


def _path(root: Node, culprit: Node) -> list[Node]:
    return next(_paths(root, culprit), [root])


def _paths(flow: Node, culprit: Node) -> Iterator[list[Node]]:
    if flow is culprit:
        yield [flow]
    for child in flow.children():
        for path in _paths(child, culprit):
            yield [flow, *path]


_CONTAINERS = frozenset({list, dict})


def copy_container(datapoint: Any) -> Any:
    """Returns `datapoint`, or a shallow copy if it is a list or dict that its source may still hold."""
    return datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint


def copy_containers(chunk: list[Any]) -> Iterable[Any]:
    """Copies the lists and dicts among many datapoints, each when it is taken: maps write to them."""
    kinds = set(map(type, chunk))
    if kinds == {list}:
        return map(list.copy, chunk)  # without Python code, as for dicts
    if kinds == {dict}:
        return map(dict.copy, chunk)
    return chunk if _CONTAINERS.isdisjoint(kinds) else map(copy_container, chunk)


def drain(datapoints: list[Any]) -> Iterator[Any]:
    """Yields the members of a list and releases each: maps write results into them, which may be large."""
    datapoints.reverse()
    return map(list.pop, repeat(datapoints, len(datapoints)))


@final
class UserCode:
    """User code that makes the datapoints of one pass, or one datapoint.

    Args:
        flow: the flow of that code.
        epoch: epoch of the pass.
        number: index of the datapoint; `None` for a pass.

    Attributes:
        begun: the number of passes that the code has started over flows without a place.
    """

    __slots__ = ("begun", "epoch", "flow", "number")

    def __init__(self, flow: Node, epoch: Epoch, number: int | None = None) -> None:
        """Stores the arguments."""
        self.flow, self.epoch, self.number, self.begun = flow, epoch, number, 0

    def places(self, flow: Node) -> bool:
        """Tells whether the running pass has set the epoch of `flow`: its children, if it is a stream."""
        return self.number is None and any(child is flow for child in self.flow.children())

    def begin(self, flow: Node) -> Epoch:
        """Returns the epoch of one more pass over a flow without an epoch from the running pass."""
        self.begun += 1
        return self.epoch.inside(self.begun, self.number, _given_seed(flow))

    def numbered(self, flow: Node, epoch: int) -> Epoch:
        """Returns the epoch with that number for a flow of which one datapoint is requested."""
        for place, child in enumerate(self.flow.children()):
            if child is flow:
                return self.flow._below(self.epoch, place, epoch)
        return self.epoch.below(None, epoch, _given_seed(flow))


running: ContextVar[UserCode | None] = ContextVar("running", default=None)
"""The innermost user code that is running; each pass continues in its own context."""


def run_pass(code: UserCode, produce: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yields the datapoints of user code; its errors name the flow; copies lists and dicts."""
    context = copy_context()
    context.run(running.set, code)
    run = context.run
    with origin_of_errors(code.flow):
        following = run(lambda: iter(produce()).__next__)
        for datapoint in map(run, repeat(following)):  # ends as the code does
            if type(datapoint) in _CONTAINERS:
                datapoint = datapoint.copy()  # without the original, arrays look unshared
            yield datapoint


def _given_seed(flow: Node) -> int | None:
    """Returns the seed given to `flow`; ignores a seed that the flow has drawn for its own passes."""
    return None if flow._seed_drawn else flow._seed
