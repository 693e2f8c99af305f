"""How an error learns where in a flow it happened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise

from ._node import Node
from ._position import Position

__all__ = ["blame", "blamed_place", "explain"]

_BLAMED = "_towerpack_blamed_flow"


def blame(error: Exception, flow: Node) -> None:
    """Records on `error` that it came out of `flow`, unless a flow further down was recorded before."""
    if not hasattr(error, _BLAMED):
        # An exception class may forbid attributes; its errors then name the root only.
        with contextlib.suppress(AttributeError):
            setattr(error, _BLAMED, flow)


def explain(error: Exception, root: Node, position: Position) -> None:
    """Adds a note with the path from `root` to the blamed flow and the datapoint that was due.

    The type of the error stays as it is.
    """
    culprit = vars(error).pop(_BLAMED, root)
    names = " > ".join(flow._name() for flow in _path(root, culprit))
    # An exception class may forbid attributes, which notes are: the error then goes on without one.
    with contextlib.suppress(AttributeError):
        error.add_note(
            f"in the flow {names}, while making datapoint {position.index} of epoch {int(position.epoch)}"
        )


def blamed_place(error: BaseException, root: Node) -> tuple[int, ...]:
    """Returns the child numbers on the way from `root` to the blamed flow, and removes the record."""
    culprit = vars(error).pop(_BLAMED, root)
    path = _path(root, culprit)
    return tuple(list(flow._children()).index(child) for flow, child in pairwise(path))


def _path(root: Node, culprit: Node) -> list[Node]:
    return next(_paths(root, culprit), [root])


def _paths(flow: Node, culprit: Node) -> Iterator[list[Node]]:
    if flow is culprit:
        yield [flow]
    for child in flow._children():
        for path in _paths(child, culprit):
            yield [flow, *path]
