"""The description of a tree of flows, as text and in a state, and its differences from another tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from ._node import Node

__all__ = [
    "Fingerprint",
    "differences",
    "is_fingerprint",
    "kept_numbers",
    "known_length",
    "length_setting",
    "tree_fingerprint",
    "tree_text",
]

_WRITTEN = (bool, int, float, complex, range, np.dtype, np.generic, type(None))
_SIZED = (list, tuple, dict, set, frozenset)
_SHOWN = 3  # members of a list of flows
_LONGEST = 40  # characters of a string
_DEEPEST = 30
_TAKES_KEYWORDS = 0x08  # inspect.CO_VARKEYWORDS
_MISSING = object()


def tree_text(flow: Node, kind: type, depth: int = 0) -> str:
    """Returns the constructor call that would build such a flow, with sizes in place of data.

    An argument is shown if an attribute of the same name, with or without a leading `_`, holds a value other
    than the default; also an attribute of the flow's `_options`. Flows that no argument shows come last.
    """
    name = type(flow).__name__
    if depth > _DEEPEST:
        return f"{name}(…)"
    parts: list[str] = []
    shown: set[int] = set()
    for argument, value, default in _kept_arguments(flow):
        if type(value) is type(default) and isinstance(value, (*_WRITTEN, str)) and value == default:
            continue
        text = _value_text(value, kind, shown, depth)
        parts.append(text if isinstance(value, kind) else f"{argument}={text}")
    below = [child for child in flow.children() if id(child) not in shown]
    parts += [tree_text(child, kind, depth + 1) for child in below[:_SHOWN]]
    if len(below) > _SHOWN:
        parts.append(f"… {len(below)} flows")
    return f"{name}({', '.join(parts)})"


def kept_numbers(flow: Node, base: type | None = None) -> dict[str, bool | int | str]:
    """Returns the numbers and truth values among the constructor's arguments that the flow keeps.

    Args:
        flow: the flow.
        base: leaves out the arguments of the constructor of this class.

    Returns:
        The values by name; a float as its `repr`.
    """
    known = () if base is None else _parameters(base)
    return {
        name: repr(float(value)) if isinstance(value, float) else value
        for name, value, _ in _kept_arguments(flow)
        if isinstance(value, (bool, int, float)) and name not in known
    }


def _kept_arguments(flow: Node) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, value and default of each constructor argument that the flow keeps.

    It is kept as an attribute of the flow, or of the object in `_options`.
    """
    own = {**getattr(vars(flow).get("_options"), "__dict__", {}), **vars(flow)}
    for name, default in _parameters(type(flow)).items():
        kept = next((key for key in (name, f"_{name}") if key in own), None)
        if kept is not None:
            yield name, own[kept], default


@lru_cache(maxsize=256)
def _parameters(cls: type) -> dict[str, Any]:
    """Returns the parameters of a constructor with defaults, including those passed on as `**options`."""
    found: dict[str, Any] = {}
    for init in [vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)]:
        if not isinstance(init, FunctionType):
            break
        code = init.__code__
        positional = code.co_varnames[: code.co_argcount]
        keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(zip(reversed(positional), reversed(init.__defaults__ or ())))
        defaults.update(init.__kwdefaults__ or {})
        for name in (*positional[1:], *keyword):
            found.setdefault(name, defaults.get(name, _MISSING))
        if not code.co_flags & _TAKES_KEYWORDS:
            break
    return found


def _value_text(value: Any, kind: type, shown: set[int], depth: int) -> str:
    if isinstance(value, kind):
        shown.add(id(value))
        return tree_text(value, kind, depth + 1)  # type: ignore[arg-type]
    if isinstance(value, _WRITTEN):
        return repr(value)
    if isinstance(value, (str, bytes)):
        text = repr(value[:_LONGEST])
        return text if len(value) <= _LONGEST else f"{text[:-1]}…{text[-1]}"
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, {value.shape}"
    if isinstance(value, _SIZED):
        return _container_text(value, kind, shown, depth)
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__name__


def _container_text(value: Any, kind: type, shown: set[int], depth: int) -> str:
    outline = f"{type(value).__name__} of {len(value)}"
    if not 0 < len(value) <= _SHOWN:
        return outline
    members = list(value.values() if isinstance(value, dict) else value)
    if not all(isinstance(member, kind) for member in members):
        return outline
    texts = [_value_text(member, kind, shown, depth) for member in members]
    if isinstance(value, dict):
        texts = [f"{key!r}: {text}" for key, text in zip(value, texts)]
    return f"{{{', '.join(texts)}}}" if isinstance(value, dict) else f"[{', '.join(texts)}]"


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
