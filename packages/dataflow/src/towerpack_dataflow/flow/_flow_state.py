"""A flow's position and seeds as a few integers, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._errors import FlowDefinitionError, StateError
from ._epoch import Epoch
from ._node import Node
from ._position import Position
from ._resume_marks import as_lists

__all__ = ["FORMAT", "dump", "load", "load_marks", "seeds_below", "set_seeds_below", "walk"]

FORMAT = 1  # under "version" in each state; a state without it has format 1
_DEEPEST = 500
_MOST = 100_000  # flows in a tree, in which some are held at several places
_REQUIRED = ("seed", "epoch", "index")
_OPTIONAL = ("version", "seeds", "marks")


def dump(flow: Node, position: Position) -> dict[str, Any]:
    """Returns the state of `flow` at `position`, ready for JSON.

    `seeds` (given to flows below the root) and `marks` (see `Position`) are there only if there are any.
    """
    epoch = position.epoch
    state: dict[str, Any] = {
        "version": FORMAT,
        "seed": epoch.seed,
        "epoch": int(epoch),
        "index": position.index,
    }
    seeds = {
        _spelt(place): node._seed for place, node in walk(flow) if node._seed is not None and node is not flow
    }
    if seeds:
        state["seeds"] = seeds
    if epoch.marks:
        state["marks"] = as_lists(epoch.marks)
    return state


def load(flow: Node, state: Mapping[str, Any]) -> Position:
    """Restores the seeds in the whole tree; returns where the next iterator has to start.

    Raises:
        StateError: `state` is not what `dump` makes.
    """
    _check(state)
    seeds, marks = state.get("seeds", {}), state.get("marks", {})
    flow.seed(state["seed"])
    for place, node in walk(flow):
        path = _spelt(place)
        if path in seeds and node is not flow:
            node.seed(seeds[path])
    load_marks(flow, marks)
    return Position(Epoch(state["epoch"], state["seed"], (), as_lists(marks)), state["index"])


def load_marks(flow: Node, marks: Mapping[str, Iterable[int]], path: tuple[int, ...] = ()) -> None:
    """Gives each flow of a tree, whose root stands at `path`, the mark that a state or a copy has for it."""
    for place, node in walk(flow, path):
        if _spelt(place) in marks:
            node._load_mark(marks[_spelt(place)])


def seeds_below(flow: Node) -> dict[str, int]:
    """Returns the seeds given to flows below `flow`, by place."""
    return {_spelt(place): node._seed for place, node in walk(flow) if place and node._seed is not None}


def set_seeds_below(flow: Node, seeds: Mapping[str, int]) -> None:
    """Sets these seeds in the tree below `flow`, and no others: a worker's copy follows its original."""
    for place, node in walk(flow):
        if place:
            node._seed = seeds.get(_spelt(place))


def walk(flow: Node, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Node]]:
    """Lists all flows of a tree with their places, parents first.

    Raises:
        FlowDefinitionError: a flow holds itself, or holds one that holds it.
    """
    found: list[tuple[tuple[int, ...], Node]] = [(path, flow)]
    for place, node in found:  # and those that are appended meanwhile
        below = node._children()
        if len(place) > _DEEPEST or len(found) > _MOST:
            raise FlowDefinitionError(
                f"{node._name()} holds itself, or flows are over each other {_DEEPEST} deep; "
                "let an attribute that leads back up to a flow above be a weakref.ref"
            )
        if node._transparent:
            found += [(place, child) for child in below]
        else:
            found += [((*place, number), child) for number, child in enumerate(below)]
    return found


def _spelt(place: tuple[int, ...]) -> str:
    """Returns the name that `Epoch.key` gives a place."""
    return ".".join(map(str, place))


def _check(state: Mapping[str, Any]) -> None:
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returns; received {type(state).__name__}")
    _check_format(state.get("version", 1))
    wrong = sorted(set(state).difference(_REQUIRED + _OPTIONAL))
    wrong += [key for key in _REQUIRED if not _is_count(state.get(key))]
    if wrong:
        raise StateError(
            f"a state holds the integers {', '.join(_REQUIRED)}, none below 0; "
            f"missing, wrong or unknown here: {', '.join(map(repr, wrong))} in {dict(state)!r}"
        )


def _check_format(number: object) -> None:
    if number != FORMAT:
        raise StateError(
            f"this state has version {number!r}, and this release reads version {FORMAT}; use the release of "
            "towerpack-dataflow that wrote it, or a later one: those read it"
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
