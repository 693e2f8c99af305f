"""Makes the `__iter__` or `datapoint` of a subclass part of the protocol between flows.

A subclass of `DataFlow` overrides the method that users call, but operators need a different method:

============= =============================== ==================================================
overridden    resulting method for users      resulting method for operators
============= =============================== ==================================================
`__iter__`    `__iter__`: counts datapoints   `_datapoints`: runs the subclass's generator in the
              for `state_dict()`              epoch that the operator wants, and counts nothing
`datapoint`   `datapoint`: makes an `Epoch`   `_datapoint` and `_datapoints`: call `datapoint`
              of a plain number               and copy containers
============= =============================== ==================================================

So `wrap_overrides` replaces the method of the class when the class is created. `for` looks `__iter__` up in
the class, past every other hook that Python has; `docs/decisions/24-methods-of-flows-are-wrapped.md` has the
reasons.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .._errors import FlowDefinitionError
from ._epoch import Epoch
from ._node import Node
from ._position import Position
from ._resume_marks import replayed
from ._user_code import copy_container, run_one, run_pass

__all__ = ["inherited_pass", "wrap_overrides"]

# The wrappers do not replace these in a class that defines them.
_OWN = frozenset({"_columns", "_trace_notes", "addressable", "origins"})


def wrap_overrides(cls: type[Node]) -> None:
    """Wraps the `__iter__` or `datapoint` defined in the body of `cls`, if there is one.

    Raises:
        FlowDefinitionError: `cls` defines both.
    """
    produce_all, produce_one = vars(cls).get("__iter__"), vars(cls).get("datapoint")
    if produce_all is not None and produce_one is not None:
        raise FlowDefinitionError(
            f"{cls.__name__} defines both __iter__ and datapoint(); keep datapoint() if any datapoint can be "
            "made by itself, else __iter__"
        )
    if produce_all is not None:
        _install(cls, _stream_methods(produce_all))
    elif produce_one is not None:
        _install(cls, _addressable_methods(produce_one))


def inherited_pass(flow: Node) -> Iterator[Any]:
    """Runs the pass that `super().__iter__()` means in a subclass of a flow of this package."""
    candidates = [vars(cls)["_datapoints"] for cls in type(flow).__mro__ if "_datapoints" in vars(cls)]
    inherited = next(method for method in candidates if not hasattr(method, "wraps_override"))
    datapoints: Iterator[Any] = inherited(flow, flow._running, 0)
    return datapoints


def _stream_methods(produce: Callable[[Node], Iterator[Any]]) -> dict[str, Any]:
    """Builds the members of a class whose `__iter__` is `produce`."""

    @functools.wraps(produce)
    def __iter__(self: Node) -> Iterator[Any]:
        if type(self).__iter__ is __iter__:
            return self._begin()
        return iter(produce(self))  # reached by super().__iter__() in a subclass

    def _datapoints(self: Node, epoch: Epoch, start: int) -> Iterator[Any]:
        return _replay(self, produce, epoch, start)

    return {"__iter__": __iter__, "_datapoints": _datapoints, "addressable": False}


def _addressable_methods(produce: Callable[[Node, Epoch, int], Any]) -> dict[str, Any]:
    """Builds the members of a class whose `datapoint` is `produce`."""

    @functools.wraps(produce)
    def datapoint(self: Node, epoch: int, index: int) -> Any:
        return run_one(self, self._rooted(epoch), index, produce, [])

    def _datapoint(self: Node, epoch: Epoch, index: int) -> Any:
        return copy_container(self.datapoint(epoch, index))

    def _datapoints(self: Node, epoch: Epoch, start: int) -> Iterator[Any]:
        def made() -> Iterator[Any]:
            return (self.datapoint(epoch, index) for index in range(start, len(self)))

        return run_pass(self, epoch, made, [])

    return {
        "addressable": True,
        "origins": _origins_of_own_code,
        "_trace_notes": _no_notes,
        "datapoint": datapoint,
        "_datapoint": _datapoint,
        "_datapoints": _datapoints,
    }


def _install(cls: type[Node], members: dict[str, Any]) -> None:
    """Gives `cls` the members; marks its `_datapoints` as a wrapper, which `inherited_pass` skips."""
    members["_datapoints"].wraps_override = True
    # A flow of this package that `cls` inherits from can gather its own batches, but not those of `cls`.
    for name, value in {"_columns": _no_columns, **members}.items():
        if name not in _OWN or name not in vars(cls):
            setattr(cls, name, value)


def _no_columns(self: Node) -> None:
    return None


def _origins_of_own_code(self: Node, epoch: Epoch, index: int) -> list[Any] | None:
    """Returns the origins of a datapoint from a user's `datapoint`: known only for a source."""
    return None if self._children() else []


def _no_notes(self: Node, epoch: Epoch, index: int) -> dict[str, Any]:
    return {}


def _replay(flow: Node, produce: Callable[[Node], Iterator[Any]], epoch: Epoch, start: int) -> Iterator[Any]:
    """Runs one pass of a stream from datapoint `start` on.

    The subclass's generator iterates over its children like any other code. During the pass, each child
    stands at the epoch that belongs to this pass; afterwards it returns to its earlier position.
    """
    children = flow._children()
    own = [child._position for child in children]
    try:
        for place, child in enumerate(children):
            child._position = Position(flow._below(epoch, place))
        flow._enter(epoch)
        first = 0 if start and flow.live else start  # datapoints of a live flow cannot be read again
        yield from run_pass(
            flow, epoch, lambda: replayed(flow._name(), epoch, iter(produce(flow)), first), []
        )
    finally:
        for child, position in zip(children, own):
            child._position = position
