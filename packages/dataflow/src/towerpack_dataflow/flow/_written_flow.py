"""The adapter of flows that are written like any iterable: by `__iter__`, or by `datapoint(epoch, index)`.

A class of a user overrides one of two methods that other users call, and flows above need something else:

============= =============================== ==================================================
written       for users                       for flows above
============= =============================== ==================================================
`__iter__`    `__iter__`: counts datapoints   `_datapoints`: runs the class's generator in the
              for `state_dict()`              epoch that the flow above wants, and counts nothing
`datapoint`   `datapoint`: makes an `Epoch`   `_datapoint` and `_datapoints`: call `datapoint`
              of a plain number               and copy containers
============= =============================== ==================================================

`for` looks `__iter__` up in the class of an object, past every other hook that Python has. So an object of
such a class is one of a subclass with the methods of `WrittenFlow` in front; the class itself stays as it was
written. `docs/decisions/24-an-adapter-for-iterable-flows.md` has the reasons.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from .._errors import FlowDefinitionError
from ._epoch import Epoch, Position
from ._flow_state import begin, walk
from ._node import Node
from ._resume_marks import replayed
from ._user_code import UserCode, copy_container, run_pass, running

__all__ = ["WrittenFlow", "adapted", "is_steady"]

_PASS_HOOKS = ("__iter__", "datapoint", "_datapoints")  # the methods by which a class makes datapoints


class WrittenFlow:
    """The methods between a flow that a user has written and its callers.

    Attributes:
        addressable: whether the class makes datapoints by `datapoint`, unless it defines the attribute.
    """

    __slots__ = ()
    _root: Any  # the base class of all flows

    def __iter__(self: Any) -> Iterator[Any]:
        """Starts the next pass, and counts its datapoints."""
        return begin(self)

    def datapoint(self: Any, epoch: int, index: int) -> Any:
        """Calls the `datapoint` of the class with an `Epoch`."""
        epoch = epoch if isinstance(epoch, Epoch) else self._rooted(epoch)
        before = running.set(UserCode(self, epoch, index))
        try:
            return super().datapoint(epoch, index)  # type: ignore[misc]
        finally:
            running.reset(before)

    def children(self: Any) -> tuple[Node, ...]:
        """Returns the flows of an inherited `children()`, then those found in the attributes."""
        inherited = super().children  # type: ignore[misc]
        below: tuple[Node, ...] = inherited()
        if inherited.__func__ is self._root.children or _declares(type(self), "children"):
            return below
        found = self._root.children(self)
        return (*below, *(child for child in found if not any(child is one for one in below)))

    def origins(self: Any, epoch: Epoch, index: int) -> Any:
        """Returns the origins that the class reports; without a report, they are known for a source."""
        if _declares(type(self), "origins"):
            return super().origins(epoch, index)  # type: ignore[misc]
        return None if self.children() else []

    def _columns(self) -> None:
        return None

    def _blocks(self, epoch: Epoch, start: int, most: int, first: int) -> None:
        return None

    def _datapoint(self: Any, epoch: Epoch, index: int) -> Any:
        return copy_container(self.datapoint(epoch, index))

    def _datapoints(self: Any, epoch: Epoch, start: int) -> Iterator[Any]:
        if not _makes_one(_written_class(type(self))):
            return iter(self._replay(epoch, start))
        code, made = UserCode(self, epoch), super().datapoint  # type: ignore[misc]

        def numbered() -> Iterator[Any]:
            for index in range(start, len(self)):
                code.number, code.begun = index, 0
                yield made(epoch, index)

        return run_pass(code, numbered)

    def _replay(self: Any, epoch: Epoch, start: int) -> Iterator[Any]:
        """Runs one pass of a stream from datapoint `start` on.

        The class's generator iterates over its children like any other code. During the pass, each child
        stands at the epoch that belongs to this pass; afterwards it returns to its earlier position.
        """
        children = self.children()
        own = [child._position for child in children]
        written = super().__iter__  # type: ignore[misc]
        first = 0 if start and self.live else start  # datapoints of a live flow cannot be read again
        try:
            for place, child in enumerate(children):
                child._position = Position(self._below(epoch, place))
            self._enter(epoch)
            yield from run_pass(
                UserCode(self, epoch), lambda: replayed(self._name(), epoch, iter(written()), first)
            )
        finally:
            for child, position in zip(children, own):
                child._position = position

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles the object as one of the class that was written."""
        made: Any = super().__reduce_ex__(max(protocol, 2))
        if isinstance(made, str):
            return made
        create, arguments, *rest = made
        if create.__name__ == "__newobj__":
            arguments = arguments[0], arguments[1:]
        elif create.__name__ != "__newobj_ex__":  # of a `__reduce__` of the class
            return made
        return _created, (_written_class(type(self)), *arguments[1:]), *rest

    def __init_subclass__(cls) -> None:
        """Hides the hook of the class that was written, which has run for that class."""


def adapted(cls: type, root: type) -> type:
    """Returns the class for objects of `cls`: a subclass of it with a `WrittenFlow` in front.

    Args:
        cls: a class of flows with its own `__iter__` or `datapoint`.
        root: the base class of all flows.

    Raises:
        FlowDefinitionError: a class defines both `__iter__` and `datapoint`.
    """
    if issubclass(cls, WrittenFlow):
        return cls
    for known in cls.__subclasses__():
        if known.__bases__ == (WrittenFlow, cls):
            return known
    members = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    members["_root"] = root
    if not _declares(cls, "addressable"):
        members["addressable"] = _makes_one(cls)
    return types.new_class(cls.__name__, (WrittenFlow, cls), exec_body=lambda space: space.update(members))


def is_steady(flow: Node) -> bool:
    """Tells whether a flow never writes to datapoints it has yielded: its tree runs no user code."""
    return all(node.effect.steady and _declares(type(node), "effect") for _, node in walk(flow))


def _declares(cls: type, name: str) -> bool:
    """Tells whether the class that makes the datapoints of `cls`, or a class below it, defines `name`.

    A declaration that is inherited from above that class describes the datapoints of another class.
    """
    for base in cls.__mro__:
        members = vars(base)
        if base is WrittenFlow:
            continue
        if name in members:
            return True
        if any(hook in members for hook in _PASS_HOOKS):
            return False
    return False


def _created(cls: Any, arguments: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None) -> Any:
    """Creates an object of a class that was written, from its pickle."""
    return cls.__new__(cls, *arguments, **(options or {}))


def _written_class(cls: type) -> type:
    """Returns the class that was written, for the one that `adapted` has made of it."""
    return cls.__mro__[cls.__mro__.index(WrittenFlow) + 1]


def _makes_one(cls: type) -> bool:
    """Tells whether the latest class among the bases of `cls` that makes datapoints makes each by itself.

    Raises:
        FlowDefinitionError: that class defines both methods.
    """
    for base in cls.__mro__:
        by_pass, by_one = "__iter__" in vars(base), "datapoint" in vars(base)
        if by_pass and by_one:
            raise FlowDefinitionError(
                f"{base.__name__} defines both __iter__ and datapoint(); keep datapoint() if any datapoint "
                "can be made by itself, else __iter__"
            )
        if by_pass or by_one:
            return by_one
    return False
