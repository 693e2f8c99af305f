"""Adds the location in a flow to an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise

from ._node import Node
from ._position import Position

__all__ = ["blame", "blamed_place", "explain"]

_BLAMED = "_towerpack_blamed_flow"


def blame(error: Exception, flow: Node) -> None:
    """Records `flow` as the origin of `error`, unless a flow further down is recorded already."""
    if not hasattr(error, _BLAMED):
        # An exception class may forbid attributes; the message then names the root only.
        with contextlib.suppress(AttributeError):
            setattr(error, _BLAMED, flow)


def explain(error: Exception, root: Node, position: Position) -> None:
    """Adds a note with the path from `root` to the recorded flow and the datapoint being made.

    The type of the error is unchanged.
    """
    culprit = vars(error).pop(_BLAMED, root)
    names = " > ".join(flow._name() for flow in _path(root, culprit))
    # An exception class may forbid attributes, and with them notes: the error is then raised without a note.
    with contextlib.suppress(AttributeError):
        error.add_note(
            f"in the flow {names}, while making datapoint {position.index} of epoch {int(position.epoch)}"
        )


def blamed_place(error: BaseException, root: Node) -> tuple[int, ...]:
    """Returns the child numbers on the way from `root` to the recorded flow, and removes the record."""
    culprit = vars(error).pop(_BLAMED, root)
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
