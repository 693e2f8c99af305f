"""A flow's position and seeds as a few integers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._errors import StateError
from ._epoch import Epoch
from ._position import Position

if TYPE_CHECKING:
    from ._flow import DataFlow

_VERSION = 1
_REQUIRED = ("seed", "epoch", "index")
_OPTIONAL = ("version", "seeds", "marks")


def dump(flow: DataFlow, position: Position) -> dict[str, Any]:
    """The state of `flow` at `position`, ready for JSON.

    `seeds` (given to flows below the root) and `marks` (see `Position`) are there only if there are any.
    """
    epoch = position.epoch
    state: dict[str, Any] = {
        "version": _VERSION,
        "seed": epoch.seed,
        "epoch": int(epoch),
        "index": position.index,
    }
    seeds = {
        _spelt(place): node._seed
        for place, node in _walk(flow)
        if node._seed is not None and node is not flow
    }
    if seeds:
        state["seeds"] = seeds
    if epoch.marks:
        state["marks"] = {path: list(mark) for path, mark in epoch.marks.items()}
    return state


def load(flow: DataFlow, state: Mapping[str, Any]) -> Position:
    """Restores the seeds in the whole tree; returns where the next iterator has to start.

    Raises:
        StateError: if `state` is not what `dump` makes.
    """
    _check(state)
    seeds, marks = state.get("seeds", {}), state.get("marks", {})
    flow.seed(state["seed"])
    for place, node in _walk(flow):
        path = _spelt(place)
        if path in seeds and node is not flow:
            node.seed(seeds[path])
        if path in marks:
            node._recognise(marks[path])
    marks = {path: list(mark) for path, mark in marks.items()}
    return Position(Epoch(state["epoch"], state["seed"], (), marks), state["index"])


def seeds_below(flow: DataFlow) -> dict[str, int]:
    """The seeds given to flows below `flow`, by place."""
    return {_spelt(place): node._seed for place, node in _walk(flow) if place and node._seed is not None}


def set_seeds_below(flow: DataFlow, seeds: Mapping[str, int]) -> None:
    """Makes the tree below `flow` have these seeds, and no others: a worker's copy follows its original."""
    for place, node in _walk(flow):
        if place:
            node._seed = seeds.get(_spelt(place))


def recognise(flow: DataFlow, marks: Mapping[str, list[int]], path: tuple[int, ...]) -> None:
    """Tells the tree below `flow`, which stands at `path`, whose marks a copy of it has left."""
    for place, node in _walk(flow, path):
        if _spelt(place) in marks:
            node._recognise(marks[_spelt(place)])


def _walk(flow: DataFlow, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], DataFlow]]:
    """All flows of a tree with their places, parents first."""
    found = [(path, flow)]
    for place, node in found:  # and those that are appended meanwhile
        below = node._children()
        if node._transparent:
            found += [(place, child) for child in below]
        else:
            found += [((*place, number), child) for number, child in enumerate(below)]
    return found


def _spelt(place: tuple[int, ...]) -> str:
    """A place under the name that `Epoch.key` gives it."""
    return ".".join(map(str, place))


def _check(state: Mapping[str, Any]) -> None:
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returns; got {type(state).__name__}")
    if state.get("version", _VERSION) != _VERSION:
        raise StateError(
            f"this state has version {state['version']!r}, and this release reads version {_VERSION}; "
            "use the release that wrote it"
        )
    wrong = sorted(set(state).difference(_REQUIRED + _OPTIONAL))
    wrong += [key for key in _REQUIRED if not _is_count(state.get(key))]
    if wrong:
        raise StateError(
            f"a state holds the integers {', '.join(_REQUIRED)}, none below 0; "
            f"missing, wrong or unknown here: {', '.join(map(repr, wrong))} in {dict(state)!r}"
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
