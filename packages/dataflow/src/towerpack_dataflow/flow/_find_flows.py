"""Which flows an object holds: in its attributes, and in what these contain."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from types import MappingProxyType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any, TypeVar

from .._errors import FlowDefinitionError

__all__ = ["find_flows", "flows_among", "slot_names"]

_PLAIN = frozenset({bool, bytes, complex, float, int, str, type(None)})
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_DEPTH = 8
_WHOLE = 1024
_FIRST = 8

F = TypeVar("F")


def find_flows(owner: object, kind: type[F]) -> list[F]:
    """Returns the flows that `owner` holds, in an order that is the same in each process.

    Looked at are the attributes, slots included, and what lies in them up to 8 containers deep: lists, tuples
    and deques, the values of dicts, the parts of a `functools.partial`, the owner of a method, and the
    attributes of dataclasses, of attrs classes and of a `SimpleNamespace`. A container with more than 1024
    members is looked through only if there is a flow among the first 8: a list of paths may have a million.

    Attributes and members of lists come first, and what lies deeper afterwards.

    Args:
        owner: the object, whose own place is not looked for.
        kind: the class of flows.

    Raises:
        FlowDefinitionError: there is a flow in a set, which has no order.
    """
    near: list[F] = []
    deep: list[Any] = []
    for value in _attributes(owner):
        if type(value) in _PLAIN:
            continue
        if isinstance(value, kind):
            near.append(value)
        elif isinstance(value, (list, tuple)) and any(isinstance(first, kind) for first in value[:_FIRST]):
            near += flows_among(value, kind)
            deep.append(value)
        else:
            deep.append(value)
    if not deep:
        return near
    seen = {id(owner), *map(id, near)}
    return near + [flow for value in deep for flow in _inside(value, kind, seen, _DEPTH)]


def flows_among(members: Iterable[Any], kind: type[F]) -> list[F]:
    """Returns the members that are flows."""
    return [member for member in members if isinstance(member, kind)]


def slot_names(cls: type) -> list[str]:
    """Returns the names of the attributes that instances of a class have in `__slots__`."""
    slotted = [vars(base) for base in cls.__mro__ if "__slots__" in vars(base)]
    return [
        name
        for members in slotted
        for name, member in members.items()
        if isinstance(member, MemberDescriptorType)
    ]


def _attributes(value: object) -> Iterator[Any]:
    yield from getattr(value, "__dict__", {}).values()
    for name in slot_names(type(value)):
        if hasattr(value, name):
            yield getattr(value, name)


def _inside(value: Any, kind: type[F], seen: set[int], depth: int) -> Iterator[F]:
    """Yields the flows in a value that were not seen before; looks into none of them."""
    if type(value) in _PLAIN or id(value) in seen:
        return
    if isinstance(value, kind):
        seen.add(id(value))
        yield value
        return
    parts = _parts(value, kind)
    if parts is None or not depth:
        return
    seen.add(id(value))
    for part in parts:
        yield from _inside(part, kind, seen, depth - 1)


def _parts(value: Any, kind: type[F]) -> Iterable[Any] | None:
    """Returns what a container consists of; `None` if the value is none that is looked into."""
    if isinstance(value, _SEQUENCES):
        return _members(value, len(value), kind)
    if isinstance(value, (dict, MappingProxyType)):
        return _members(value.values(), len(value), kind)
    if isinstance(value, _SETS):
        _refuse_set(_members(value, len(value), kind), kind)
        return None
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__,)
    is_record = dataclasses.is_dataclass(value) or hasattr(type(value), "__attrs_attrs__")
    if isinstance(value, SimpleNamespace) or (is_record and not isinstance(value, type)):
        return list(_attributes(value))
    return None


def _members(container: Any, size: int, kind: type[F]) -> Iterable[Any]:
    sliced = isinstance(container, (list, tuple))
    first = container[:_FIRST] if sliced else list(islice(container, _FIRST))
    if size > _WHOLE and not flows_among(first, kind):
        return first
    members = container[:] if sliced else list(container)
    return () if _PLAIN.issuperset(map(type, members)) else members


def _refuse_set(members: Iterable[Any], kind: type[F]) -> None:
    if found := flows_among(members, kind):
        raise FlowDefinitionError(
            f"a set has no order, so the flows in it ({type(found[0]).__name__}, …) would have other random "
            "numbers in each process; hold them in a list, tuple or dict"
        )
