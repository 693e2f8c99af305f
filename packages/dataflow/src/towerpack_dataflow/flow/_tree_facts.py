"""The description of a tree of flows in a state, and its differences from another tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._node import Node
from ._tree_text import kept_numbers

__all__ = ["Facts", "differences", "is_facts", "known_length", "length_fact", "tree_facts"]

Facts = dict[str, dict[str, Any]]
"""Kind and sizes of the flows in a tree, by place; `{"": {"kind": "DataFromList", "length": 9}}` is one."""

_WORDS = (bool, int, str)


def tree_facts(nodes: Iterable[tuple[str, Node]]) -> Facts:
    """Describes the flows of a tree, parents first.

    Flows that only carry, count or divide the datapoints below are left out: a state fits any number of
    workers and of hosts.
    """
    return {
        place: {"kind": type(node).__name__, **_settings(node)}
        for place, node in nodes
        if not (node.effect.keeps_place and node.children())
    }


def _settings(node: Node) -> dict[str, Any]:
    """Returns the length of a source, and the settings that states belong to.

    A subclass with another constructor adds the numbers among its arguments to the `identity()` of its base.
    """
    declared, created = (
        next(base for base in type(node).__mro__ if name in vars(base)) for name in ("identity", "__init__")
    )
    length = {} if node.children() else length_fact(node)
    added = {} if issubclass(declared, created) else kept_numbers(node, declared)
    return {**length, **added, **node.identity()}


def known_length(flow: Node) -> int | None:
    """Returns the length of a flow, or `None` if it is unknown."""
    try:
        return len(flow)
    except (TypeError, NotImplementedError):  # flows in Tensorpack's style raise the latter
        return None


def length_fact(flow: Node) -> dict[str, Any]:
    """Returns the length of a flow as a fact; empty without a length or before `reset_state()`."""
    try:
        return {"length": len(flow)}
    except Exception:  # raised by user code, which may need a file that is not open yet
        return {}


def is_facts(facts: object) -> bool:
    """Tells whether a value from a state has the form of facts."""
    return isinstance(facts, Mapping) and all(
        isinstance(place, str)
        and isinstance(fact, Mapping)
        and isinstance(fact.get("kind"), str)
        and all(isinstance(name, str) and isinstance(value, _WORDS) for name, value in fact.items())
        for place, fact in facts.items()
    )


def differences(
    theirs: Mapping[str, Mapping[str, Any]], ours: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Returns each difference with its name and both values; ignores properties known to one side only."""
    if _kinds(theirs) != _kinds(ours):
        return {"flows": (_outline(theirs), _outline(ours))}
    found = {}
    for place, fact in ours.items():
        for name in fact.keys() & theirs[place].keys():
            if fact[name] != theirs[place][name]:
                found[f"{name} of {_at(ours, place)}"] = theirs[place][name], fact[name]
    return dict(sorted(found.items()))


def _kinds(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {place: fact["kind"] for place, fact in facts.items()}


def _at(facts: Mapping[str, Mapping[str, Any]], place: str) -> str:
    kind = facts[place]["kind"]
    alike = sum(fact["kind"] == kind for fact in facts.values())
    return str(kind) if alike == 1 else f"{kind} at {place or 'the top'}"


def _outline(facts: Mapping[str, Mapping[str, Any]], place: str = "") -> str:
    """Returns the nested kinds: `"BatchData(MapData(DataFromList))"`."""
    depth = place.count(".") + 2 if place else 1
    below = [
        other
        for other in facts
        if other and len(other.split(".")) == depth and other.startswith(f"{place}." if place else "")
    ]
    parts = ", ".join(_outline(facts, other) for other in sorted(below, key=_number))
    kind = facts[place]["kind"] if place in facts else "?"
    return f"{kind}({parts})" if parts else str(kind)


def _number(place: str) -> tuple[int, str]:
    last = place.rpartition(".")[2]
    return (int(last) if last.isdecimal() else 0), place
