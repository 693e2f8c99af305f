"""A flow's place in a tree, for the modules below `DataFlow`, and the search for flows in an object."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from .._errors import FlowDefinitionError
from ._columns import Blocks
from ._epoch import Epoch, Position

__all__ = ["DROPPED", "Effect", "Node", "find_flows", "flows_in", "kept_attributes", "set_attributes"]


class Effect(NamedTuple):
    """The effect of a flow on the datapoints that it yields; the default promises nothing.

    Set it as the class attribute `effect`. It holds until a subclass makes datapoints in another way.

    Attributes:
        keeps_place: whether the flow below takes the place of this one in the tree, and so has the same
            random numbers with and without it: an observer, a part of an order, workers.
        passes_on: whether the datapoints below pass through unchanged, with their arrays. A promise of
            read-only use and a fixed batch size then hold below, too.
        steady: whether the class never writes to a datapoint that it has yielded, and calls no function that
            may. Collecting operators then store datapoints without copies.

    Example:
        >>> from towerpack_dataflow import ProxyDataFlow
        >>> class EveryOther(ProxyDataFlow):
        ...     effect = Effect(passes_on=True, steady=True)
        ...     def __len__(self):
        ...         return len(self.ds) // 2
        ...     def datapoint(self, epoch, index):
        ...         return self.ds.datapoint(epoch, 2 * index)
        >>> list(EveryOther(range(6)))
        [0, 2, 4]
    """

    keeps_place: bool = False
    passes_on: bool = False
    steady: bool = False


# Returned by `_datapoint` for a dropped datapoint: `None` is a datapoint like any other.
DROPPED: Final = object()


class Node(Protocol):
    """A flow as a node in a tree of flows; `DataFlow` implements it and documents the members.

    The modules that walk trees, write states and adopt methods stand below `DataFlow`, which uses them. They
    depend on this protocol, so that no import leads back up.
    """

    _seed: int | None
    _seed_drawn: bool
    _position: Position | None
    _ready: bool
    _running: Epoch | None

    @property
    def _copied(self) -> bool: ...

    @property
    def effect(self) -> Effect:
        """The effect on datapoints."""

    @property
    def addressable(self) -> bool:
        """Whether `datapoint()` works."""

    @property
    def live(self) -> bool:
        """Whether datapoints cannot be read again."""

    @property
    def endless(self) -> bool:
        """Whether no pass ends."""

    @property
    def sharded(self) -> bool:
        """Whether the flow yields one host's share of a common order."""

    def __iter__(self) -> Iterator[Any]:
        """Starts the next pass."""

    def __len__(self) -> int:
        """Returns the number of datapoints in a pass."""

    def datapoint(self, epoch: int, index: int) -> Any:
        """Makes one datapoint."""

    def reset_state(self) -> None:
        """Prepares for iteration in this process."""

    def seed(self, seed: int) -> None:
        """Sets the seed of this flow and of all below it."""

    def state_dict(self) -> dict[str, Any]:
        """Returns position and seeds."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where a state was taken."""

    def _name(self) -> str: ...

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]: ...

    def _blocks(self, epoch: Epoch, start: int, most: int, first: int) -> Blocks | None: ...

    def identity(self) -> Mapping[str, bool | int | str]:
        """Returns the settings that states belong to."""

    def _keeps_own_state(self) -> bool: ...

    def children(self) -> Sequence[Node]:
        """Returns the flows directly below."""

    def _below(self, epoch: Epoch, place: int = 0, number: int | None = None) -> Epoch: ...

    def _rooted(self, epoch: int) -> Epoch: ...

    def _enter(self, epoch: Epoch) -> None: ...

    def _loaded(self, mark: Iterable[int] | None) -> None: ...


_PLAIN = frozenset({bool, bytes, complex, float, int, str, type(None)})
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_RECORDS = ("__dataclass_fields__", "__attrs_attrs__")
_OWN = frozenset(
    {"_position", "_ready", "_running", "_seed", "_seed_drawn", "rng"}
)  # of a flow; these hold none
_DEPTH = 8
_WHOLE = 1024
_FIRST = 8

F = TypeVar("F")


def find_flows(owner: object, kind: type[F]) -> list[F]:
    """Returns the flows that `owner` holds, in an order that is the same in each process.

    The search covers the attributes, slots included, and containers in them up to 8 levels deep: lists,
    tuples and deques, the values of dicts, the parts of a `functools.partial`, the owner of a method, and the
    attributes of dataclasses, of attrs classes and of a `SimpleNamespace`. A container with more than 1024
    members is searched only if there is a flow among the first 8: a list of paths may have a million.

    Attributes and members of lists come first, deeper levels afterwards.

    Args:
        owner: the object to search.
        kind: the class of flows.

    Raises:
        FlowDefinitionError: a set, which has no order, contains a flow.
    """
    near: list[F] = []
    deep: list[Any] = []
    for value in _attributes(owner, _OWN):
        if type(value) in _PLAIN:
            continue
        if isinstance(value, kind):
            near.append(value)
        else:
            near += flows_in(value, kind)
            deep.append(value)
    if not deep:
        return near
    seen = {id(owner), *map(id, near)}
    return near + [flow for value in deep for flow in _inside(value, kind, seen, _DEPTH)]


def _flows_among(members: Iterable[Any], kind: type[F]) -> list[F]:
    """Returns the members that are flows."""
    return [member for member in members if isinstance(member, kind)]


def flows_in(value: object, kind: type[F]) -> list[F]:
    """Returns an attribute's value as a list of flows if it is a flow or a list or tuple of flows."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)) and _flows_among(value[:_FIRST], kind):
        return _flows_among(value, kind)
    return []


def kept_attributes(owner: object, left_out: Iterable[str]) -> dict[str, Any]:
    """Returns the attributes of an object to pickle, including those in `__slots__` included."""
    slots = {name: getattr(owner, name) for name in _slot_names(type(owner)) if hasattr(owner, name)}
    return {key: value for key, value in {**vars(owner), **slots}.items() if key not in left_out}


def set_attributes(owner: object, attributes: Mapping[str, Any]) -> None:
    """Sets the attributes that `kept_attributes` has returned."""
    slots = frozenset(_slot_names(type(owner)))
    for name, value in attributes.items():
        if name in slots:
            setattr(owner, name, value)
        else:
            vars(owner)[name] = value


def _slot_names(cls: type) -> list[str]:
    """Returns the names of the attributes that instances of a class have in `__slots__`."""
    slotted = [vars(base) for base in cls.__mro__ if "__slots__" in vars(base)]
    return [
        name
        for members in slotted
        for name, member in members.items()
        if isinstance(member, MemberDescriptorType)
    ]


def _attributes(value: object, left_out: frozenset[str] = frozenset()) -> Iterator[Any]:
    # A copy, because another thread that starts a pass may set an attribute meanwhile.
    for name, attribute in dict(getattr(value, "__dict__", {})).items():
        if name not in left_out:
            yield attribute
    for name in _slot_names(type(value)):
        if hasattr(value, name):
            yield getattr(value, name)


def _inside(value: Any, kind: type[F], seen: set[int], depth: int) -> Iterator[F]:
    """Yields the unseen flows in a value; does not search these flows."""
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
    """Returns the contents of a container; `None` if the value is not a searchable container."""
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
    if isinstance(value, SimpleNamespace) or any(hasattr(type(value), name) for name in _RECORDS):
        return list(_attributes(value))
    return None


def _members(container: Any, size: int, kind: type[F]) -> Iterable[Any]:
    sliced = isinstance(container, (list, tuple))
    first = container[:_FIRST] if sliced else list(islice(container, _FIRST))
    if size > _WHOLE and not _flows_among(first, kind):
        return first
    members = container[:] if sliced else list(container)
    return () if _PLAIN.issuperset(map(type, members)) else members


def _refuse_set(members: Iterable[Any], kind: type[F]) -> None:
    if found := _flows_among(members, kind):
        raise FlowDefinitionError(
            f"a set has no order, so the flows in it ({type(found[0]).__name__}, …) would have other random "
            "numbers in each process; hold them in a list, tuple or dict"
        )
