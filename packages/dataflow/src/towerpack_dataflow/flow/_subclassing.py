"""How the methods that a user's subclass overrides become the protocol that operators rely on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from .._errors import FlowDefinitionError, blame
from ._epoch import Epoch
from ._position import Position

if TYPE_CHECKING:
    from ._flow import DataFlow

_CONTAINERS = frozenset({list, dict})
_OWN = frozenset({"addressable", "_columns"})  # a class that has these knows better


def adopt(cls: type[DataFlow]) -> None:
    """Wraps the `__iter__` or `datapoint` defined in the body of `cls`.

    `iter(flow)` must count datapoints, whereas an operator that reads the flow as its child must not pay
    for counting twice, and says which epoch it wants. So a subclass's `__iter__` is kept as "the datapoints
    of one pass", and what users and `for` call is a wrapper that counts.

    Raises:
        FlowDefinitionError: if `cls` defines both.
    """
    produce_all, produce_one = vars(cls).get("__iter__"), vars(cls).get("datapoint")
    if produce_all is not None and produce_one is not None:
        raise FlowDefinitionError(
            f"{cls.__name__} defines both __iter__ and datapoint(); keep datapoint() if any datapoint can be "
            "made by itself, else __iter__"
        )
    if produce_all is not None:
        _adopt_stream(cls, produce_all)
    elif produce_one is not None:
        _adopt_addressable(cls, produce_one)


def inherited_pass(flow: DataFlow) -> Iterator[Any]:
    """What `super().__iter__()` means in an `__iter__` that overrides one of our own flows."""
    candidates = [vars(cls)["_datapoints"] for cls in type(flow).__mro__ if "_datapoints" in vars(cls)]
    ours = next(method for method in candidates if not hasattr(method, "adopted"))
    datapoints: Iterator[Any] = ours(flow, flow._running, 0)
    return datapoints


def unshared(datapoint: Any) -> Any:
    """`datapoint`, or a shallow copy if it is a list or dict that its source may still hold."""
    return datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint


def unshared_all(chunk: list[Any]) -> list[Any]:
    """The same for many at once; costs next to nothing where there is nothing to copy."""
    if _CONTAINERS.isdisjoint(map(type, chunk)):
        return chunk
    return [datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint for datapoint in chunk]


def outgoing(flow: DataFlow, datapoints: Iterator[Any]) -> Iterator[Any]:
    """Datapoints made by a user's code: unshared, and an error in them names `flow`."""
    try:
        for datapoint in datapoints:
            yield datapoint.copy() if type(datapoint) in _CONTAINERS else datapoint
    except Exception as error:
        blame(error, flow)
        raise


def _adopt_stream(cls: type[DataFlow], produce: Callable[[DataFlow], Iterator[Any]]) -> None:
    @functools.wraps(produce)
    def __iter__(self: DataFlow) -> Iterator[Any]:
        if type(self).__iter__ is __iter__:
            return self._begin()
        return iter(produce(self))  # reached by super().__iter__() in a subclass

    def _datapoints(self: DataFlow, epoch: Epoch, start: int) -> Iterator[Any]:
        return _replay(self, produce, epoch, start)

    _datapoints.adopted = True  # type: ignore[attr-defined]
    _replace(cls, __iter__=__iter__, _datapoints=_datapoints, addressable=False)


def _adopt_addressable(cls: type[DataFlow], produce: Callable[[DataFlow, Epoch, int], Any]) -> None:
    @functools.wraps(produce)
    def datapoint(self: DataFlow, epoch: int, index: int) -> Any:
        return produce(self, self._rooted(epoch), index)

    def _datapoint(self: DataFlow, epoch: Epoch, index: int) -> Any:
        return unshared(self.datapoint(epoch, index))

    def _datapoints(self: DataFlow, epoch: Epoch, start: int) -> Iterator[Any]:
        return outgoing(self, (self.datapoint(epoch, index) for index in range(start, len(self))))

    _datapoints.adopted = True  # type: ignore[attr-defined]
    _replace(cls, datapoint=datapoint, _datapoint=_datapoint, _datapoints=_datapoints, addressable=True)


def _replace(cls: type[DataFlow], **attributes: Any) -> None:
    # What a flow of ours that `cls` inherits from can gather is not what `cls` makes.
    for name, value in {"_columns": _no_columns, **attributes}.items():
        if name not in _OWN or name not in vars(cls):
            setattr(cls, name, value)


def _no_columns(self: DataFlow) -> None:
    return None


def _replay(
    flow: DataFlow, produce: Callable[[DataFlow], Iterator[Any]], epoch: Epoch, start: int
) -> Iterator[Any]:
    """One pass of a stream, lending its children the epoch they have to give when it iterates over them."""
    children = flow._children()
    own = [child._position for child in children]
    try:
        for place, child in enumerate(children):
            child._position = Position(flow._below(epoch, place))
        flow._enter(epoch)
        yield from outgoing(flow, islice(produce(flow), start, None))
    finally:
        for child, position in zip(children, own):
            child._position = position
