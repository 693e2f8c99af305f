"""The description of a tree of flows in a state, and its differences from another tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._node import Node
from ._tree_text import kept_numbers

__all__ = [
    "Fingerprint",
    "differences",
    "is_fingerprint",
    "known_length",
    "length_setting",
    "tree_fingerprint",
]

Fingerprint = dict[str, dict[str, Any]]
"""Kind and sizes of the flows in a tree, by place; `{"": {"kind": "DataFromList", "length": 9}}` is one."""

_WORDS = (bool, int, str)


def tree_fingerprint(nodes: Iterable[tuple[str, Node]]) -> Fingerprint:
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
    length = {} if node.children() else length_setting(node)
    added = {} if issubclass(declared, created) else kept_numbers(node, declared)
    return {**length, **added, **node.identity()}


def known_length(flow: Node) -> int | None:
    """Returns the length of a flow, or `None` if it is unknown."""
    try:
        return len(flow)
    except (TypeError, NotImplementedError):  # flows in Tensorpack's style raise the latter
        return None


def length_setting(flow: Node) -> dict[str, Any]:
    """Returns the length of a flow as a setting; empty without a length or before `reset_state()`."""
    try:
        return {"length": len(flow)}
    except Exception:  # raised by user code, which may need a file that is not open yet
        return {}


def is_fingerprint(fingerprint: object) -> bool:
    """Tells whether a value from a state has the form of a fingerprint."""
    return isinstance(fingerprint, Mapping) and all(
        isinstance(place, str)
        and isinstance(settings, Mapping)
        and isinstance(settings.get("kind"), str)
        and all(isinstance(name, str) and isinstance(value, _WORDS) for name, value in settings.items())
        for place, settings in fingerprint.items()
    )


def differences(
    theirs: Mapping[str, Mapping[str, Any]], ours: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Returns each difference with its name and both values; ignores properties known to one side only."""
    if _kinds(theirs) != _kinds(ours):
        return {"flows": (_outline(theirs), _outline(ours))}
    found = {}
    for place, settings in ours.items():
        for name in settings.keys() & theirs[place].keys():
            if settings[name] != theirs[place][name]:
                found[f"{name} of {_at(ours, place)}"] = theirs[place][name], settings[name]
    return dict(sorted(found.items()))


def _kinds(fingerprint: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {place: settings["kind"] for place, settings in fingerprint.items()}


def _at(fingerprint: Mapping[str, Mapping[str, Any]], place: str) -> str:
    kind = fingerprint[place]["kind"]
    alike = sum(settings["kind"] == kind for settings in fingerprint.values())
    return str(kind) if alike == 1 else f"{kind} at {place or 'the top'}"


def _outline(fingerprint: Mapping[str, Mapping[str, Any]], place: str = "") -> str:
    """Returns the nested kinds: `"BatchData(MapData(DataFromList))"`."""
    depth = place.count(".") + 2 if place else 1
    below = [
        other
        for other in fingerprint
        if other and len(other.split(".")) == depth and other.startswith(f"{place}." if place else "")
    ]
    parts = ", ".join(_outline(fingerprint, other) for other in sorted(below, key=_number))
    kind = fingerprint[place]["kind"] if place in fingerprint else "?"
    return f"{kind}({parts})" if parts else str(kind)


def _number(place: str) -> tuple[int, str]:
    last = place.rpartition(".")[2]
    return (int(last) if last.isdecimal() else 0), place
