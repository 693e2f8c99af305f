"""Compares two surfaces: uses of the older one that break with the newer one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from .surface import Surface

__all__ = ["Breaking", "breaking_changes"]

_SAME = "same as "
_HERITAGE = " <- "


class Breaking:
    """One change that breaks code written for the older surface.

    Attributes:
        name: the public name that it is about.
        what: the change, as the rest of a sentence.
    """

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"

    @property
    def short_name(self) -> str:
        """The last part of the name, which a changelog calls it by."""
        return self.name.rpartition(".")[2]


def breaking_changes(before: Surface, now: Surface) -> list[Breaking]:
    """Returns the breaking changes, in the order of names.

    Both surfaces are those of all wheels together: a class may have its members from a class of another one.
    A parameter more that has a default, a new name, a new base class break nothing.
    """
    return [each for name in sorted(before) for each in _changes(name, before, now)]


def _changes(name: str, before: Surface, now: Surface) -> Iterator[Breaking]:
    newer = _found(name, now)
    if newer is None:
        owner = name.rpartition(".")[0]
        if owner not in before or _found(owner, now) is not None:  # else the owner is what is gone
            yield Breaking(name, "is gone")
        return
    older = before[name]
    if older.startswith(_SAME):
        return
    old_kind, _, old_rest = older.partition(" ")
    new_kind, _, new_rest = newer.partition(" ")
    if old_kind != new_kind and {old_kind, new_kind} != {"attribute", "property"}:
        yield Breaking(name, f"was a {old_kind} and is a {new_kind}")
        return
    yield from (Breaking(name, what) for what in _arguments(old_rest, new_rest))
    yield from (Breaking(name, f"is no {base} any more") for base in _lost_bases(name, before, now))


def _found(name: str, surface: Surface) -> str | None:
    """The line of a name, also where it stands under another name or under a base of its class."""
    line = surface.get(name)
    if line is not None:
        return _found(line.removeprefix(_SAME), surface) if line.startswith(_SAME) else line
    owner, _, member = name.rpartition(".")
    described = surface.get(owner)
    if described is None:
        return None
    places = [described.removeprefix(_SAME)] if described.startswith(_SAME) else _bases(described)
    found = (_found(f"{place}.{member}", surface) for place in places)
    return next((line for line in found if line is not None), None)


def _bases(line: str) -> list[str]:
    heritage = line.partition(_HERITAGE)[2]
    return heritage.split(", ") if heritage else []


def _all_bases(name: str, surface: Surface) -> set[str]:
    bases = set(_bases(_found(name, surface) or ""))
    return bases.union(*(_all_bases(base, surface) for base in bases))


def _lost_bases(name: str, before: Surface, now: Surface) -> list[str]:
    return sorted(_all_bases(name, before) - _all_bases(name, now))


def _arguments(older: str, newer: str) -> Iterator[str]:
    """Breaking changes for calls with the older arguments."""
    before, now = _parsed(older), _parsed(newer)
    if before is None or now is None:
        return
    places = [argument.arg for argument in (*before.posonlyargs, *before.args)]
    new_places = [argument.arg for argument in (*now.posonlyargs, *now.args)]
    by_name = [argument.arg for argument in (*before.args, *before.kwonlyargs)]
    new_by_name = [argument.arg for argument in (*now.args, *now.kwonlyargs)]
    known = {*new_places, *new_by_name}
    gone = [name for name in dict.fromkeys([*places, *by_name]) if name not in known]
    if now.kwarg is None:
        yield from (f"its argument `{name}` is gone" for name in gone)
    kept = [name for name in places if name in known]
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(kept, new_places)))
    if now.vararg is None:
        yield from (f"its argument `{name}` has another place" for name in kept[len(same) :])
    yield from (
        f"its argument `{name}` has no name in calls any more" for name in by_name if _unnamed(name, now)
    )
    yield from _defaults(before, now)
    yield from _collectors(before, now)


def _unnamed(name: str, arguments: ast.arguments) -> bool:
    return any(argument.arg == name for argument in arguments.posonlyargs)


def _defaults(before: ast.arguments, now: ast.arguments) -> Iterator[str]:
    older, newer = _default_texts(before), _default_texts(now)
    for name, default in newer.items():
        if name not in older:
            if default is None:
                yield f"its argument `{name}` is new and must be given"
        elif older[name] is not None and default is None:
            yield f"its argument `{name}` must be given now"
        elif older[name] is not None and older[name] != default:
            yield f"the default of `{name}` was {older[name]} and is {default}"


def _default_texts(arguments: ast.arguments) -> dict[str, str | None]:
    places = [*arguments.posonlyargs, *arguments.args]
    required = [None] * (len(places) - len(arguments.defaults))
    defaults = [
        *zip(places, [*required, *arguments.defaults]),
        *zip(arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return {argument.arg: None if value is None else ast.unparse(value) for argument, value in defaults}


def _collectors(before: ast.arguments, now: ast.arguments) -> Iterator[str]:
    if before.vararg is not None and now.vararg is None:
        yield f"`*{before.vararg.arg}` is gone"
    if before.kwarg is not None and now.kwarg is None:
        yield f"`**{before.kwarg.arg}` is gone"


def _parsed(rest: str) -> ast.arguments | None:
    """The arguments in a line, or `None` for what has none or has them from elsewhere."""
    text = rest.partition(_HERITAGE)[0]
    if not text.startswith("(") or text == "(...)":
        return None
    (call,) = ast.parse(f"def call{text}: ...").body
    assert isinstance(call, ast.FunctionDef)
    return call.args
