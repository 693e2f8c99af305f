"""Functions over datapoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from .._errors import ArgumentTypeError, ComponentError, UnknownLengthError, blame
from ..flow._epoch import Epoch
from ._proxy_flow import ProxyDataFlow

_logger = logging.getLogger("towerpack_dataflow")


class MapData(ProxyDataFlow):
    """Replaces each datapoint by what a function makes of it; `None` drops it.

    **Dropping.** A map that drops nothing is as addressable as the flow below it and has its length. One
    that drops is a stream of unknown length, because which datapoint comes as the *i*-th is known only by
    calling the function on all before it. Nobody can see which kind a function is, so `drops` says it. If a
    function drops although nothing was said, that is allowed, and exact: the datapoint is left out, batches
    above stay full, and from there on the map is of the second kind. It logs one warning, since a `len()`
    taken before was too large. States stay exact too: as long as nothing has been dropped, index *i* above is
    index *i* below; the state of a map that drops says so, and such maps keep track of their place below.
    The pass in which the first drop comes as a surprise is resumed by making it again.

    Of successive maps, two run in one loop, which makes them cheaper than two plain generators.

    Args:
        ds: the flow below.
        func: called with a datapoint, whose list or dict it may change and return. With `rng=True` called
            with a `numpy.random.Generator` too, seeded by (seed, place, epoch, index of the datapoint below).
        rng: whether `func` gets one.
        drops: whether `func` is expected to drop.

    Raises:
        ArgumentTypeError: if `func` cannot be called.

    Example:
        >>> list(MapData([[1], [2], [3]], lambda dp: [dp[0] * 10]))
        [[10], [20], [30]]
        >>> odd = MapData([[1], [2], [3]], lambda dp: dp if dp[0] % 2 else None, drops=True)
        >>> list(odd)
        [[1], [3]]
    """

    _holds = ("ds",)

    def __init__(self, ds: Any, func: Callable[..., Any], *, rng: bool = False, drops: bool = False) -> None:
        """Puts `func` over `ds`; calls nothing yet."""
        super().__init__(ds)
        if not callable(func):
            raise ArgumentTypeError(
                f"{type(self).__name__} takes a function of a datapoint; got {type(func).__name__}"
            )
        self._func = func
        self._rng = rng
        self._drops = drops

    def __len__(self) -> int:
        """As the flow below, while nothing was dropped.

        Raises:
            UnknownLengthError: if this map drops.
        """
        if self._drops:
            raise UnknownLengthError(
                f"{self._name()} drops datapoints, so the length of a pass is unknown; iterate over it, or "
                "fix the length with FixedSizeData(flow, size)"
            )
        return len(self.ds)

    @property
    def addressable(self) -> bool:
        """As the flow below, while nothing was dropped."""
        return not self._drops and self.ds.addressable

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self._drops:
            return self._sifted(epoch, start)
        if self._rng:
            return self._randomised(epoch, start)
        child = self.ds
        if isinstance(child, MapData) and child._is_plain():
            return self._paired(child, epoch, start)
        return self._single(epoch, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        below = self._below(epoch)
        datapoint = self.ds._datapoint(below, index)
        if datapoint is None:
            return None
        try:
            datapoint = self._func(datapoint, epoch.rng(index)) if self._rng else self._func(datapoint)
        except Exception as error:
            blame(error, self)
            raise
        if datapoint is None:
            self._surprise(epoch, index)
        return datapoint

    def _single(self, epoch: Epoch, start: int) -> Iterator[Any]:
        func = self._func
        try:
            for datapoint in self.ds._datapoints(self._below(epoch), start):
                datapoint = func(datapoint)
                if datapoint is not None:
                    yield datapoint
                else:
                    self._surprise(epoch, start)
        except Exception as error:
            blame(error, self)
            raise

    def _paired(self, lower: MapData, epoch: Epoch, start: int) -> Iterator[Any]:
        """This map and the one below in one loop: the second generator costs more than the bookkeeping."""
        first, second = lower._func, self._func
        below = self._below(epoch)
        try:
            for datapoint in lower.ds._datapoints(lower._below(below), start):
                try:
                    datapoint = first(datapoint)
                except Exception as error:
                    blame(error, lower)
                    raise
                if datapoint is None:
                    lower._surprise(below, start)
                    continue
                datapoint = second(datapoint)
                if datapoint is not None:
                    yield datapoint
                else:
                    self._surprise(epoch, start)
        except Exception as error:
            blame(error, self)
            raise

    def _randomised(self, epoch: Epoch, start: int) -> Iterator[Any]:
        func = self._func
        try:
            for index, datapoint in enumerate(self.ds._datapoints(self._below(epoch), start), start):
                datapoint = func(datapoint, epoch.rng(index))
                if datapoint is not None:
                    yield datapoint
                else:
                    self._surprise(epoch, start)
        except Exception as error:
            blame(error, self)
            raise

    def _sifted(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """A pass of a map that drops."""
        mark = epoch.marks[epoch.key] = self._mark_for(epoch, start)
        func = self._func
        try:
            for index, datapoint in enumerate(self.ds._datapoints(self._below(epoch), mark[3]), mark[3]):
                datapoint = func(datapoint, epoch.rng(index)) if self._rng else func(datapoint)
                mark[3] = index + 1
                if datapoint is None:
                    continue
                mark[2] += 1
                if mark[2] > start:
                    yield datapoint
        except Exception as error:
            blame(error, self)
            raise

    def _mark_for(self, epoch: Epoch, start: int) -> list[int]:
        """Where to go on, if this map drops: era, epoch, datapoints given, datapoints read below."""
        mark = epoch.marks.get(epoch.key)
        if mark is None or mark[:2] != [epoch.era, epoch] or mark[2] > start:
            return [epoch.era, int(epoch), 0, 0]
        return mark

    def _surprise(self, epoch: Epoch, start: int) -> None:
        """Nobody said that this map drops, and it has, in a pass made from `start` on."""
        # Up to its start nothing was dropped in this pass, or it would be running as _sifted. The mark is
        # needed even if another iterator has seen drops before: it tells a state's reader what kind this is.
        epoch.marks.setdefault(epoch.key, [epoch.era, int(epoch), start, start])
        if self._drops:
            return
        self._drops = True
        _logger.warning(
            "%s returned None, which drops the datapoint: len() was too large, and is unknown from here on. "
            "Say drops=True to have it right from the start, and to resume faster",
            self._name(),
        )

    def _is_plain(self) -> bool:
        return not (self._rng or self._drops) and type(self)._datapoints is MapData._datapoints

    def _recognise(self, mark: list[int]) -> None:
        self._drops = True

    def _name(self) -> str:
        return (
            f"{type(self).__name__}({getattr(self._func, '__qualname__', None) or type(self._func).__name__})"
        )


class MapDataComponent(MapData):
    """Replaces one component of each datapoint; `None` drops the datapoint.

    The datapoint keeps its type: a tuple stays a tuple.

    Args:
        ds: the flow below.
        func: called with the component; with `rng=True` with a `numpy.random.Generator` too.
        index: which component: a position in a list or tuple, a key of a dict.
        rng: as in `MapData`.
        drops: as in `MapData`.

    Raises:
        ArgumentTypeError: if `func` cannot be called.
        ComponentError: while iterating, if a datapoint has no such component.

    Example:
        >>> list(MapDataComponent([[1, "a"], [2, "b"]], str.upper, index=1))
        [[1, 'A'], [2, 'B']]
    """

    _holds = ("ds",)

    def __init__(
        self,
        ds: Any,
        func: Callable[..., Any],
        index: Hashable = 0,
        *,
        rng: bool = False,
        drops: bool = False,
    ) -> None:
        """Puts `func` over component `index` of the datapoints of `ds`."""
        super().__init__(ds, func, rng=rng, drops=drops)
        self._func = _OfComponent(func, index)


class _OfComponent:
    """A function of a component as a function of a datapoint."""

    def __init__(self, func: Callable[..., Any], index: Any) -> None:
        self._func = func
        self._index = index
        self.__qualname__ = f"{getattr(func, '__qualname__', type(func).__name__)}, index={index!r}"

    def __call__(self, datapoint: Any, *rng: np.random.Generator) -> Any:
        index = self._index
        try:
            component = datapoint[index]
        except (LookupError, TypeError) as error:
            raise ComponentError(
                f"no component {index!r} in this datapoint, which is {_shape_of(datapoint)}; "
                "index= is a position in a list or tuple, a key of a dict"
            ) from error
        component = self._func(component, *rng)
        if component is None:
            return None
        if not isinstance(datapoint, tuple):
            datapoint[index] = component  # the list or dict is this pass's own: sources hand out copies
            return datapoint
        members = list(datapoint)
        members[index] = component
        return type(datapoint)._make(members) if hasattr(datapoint, "_make") else tuple(members)


def _shape_of(datapoint: Any) -> str:
    if isinstance(datapoint, dict):
        return f"a dict with the keys {list(datapoint)!r}"
    if isinstance(datapoint, (list, tuple)):
        return f"a {type(datapoint).__name__} of {len(datapoint)}"
    return f"of type {type(datapoint).__name__}, not list, tuple or dict"
