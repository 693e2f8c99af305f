"""`MapData` and `FilterData`: apply a function to each datapoint, or keep those for which it is true."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError, UnknownLengthError
from ..flow._epoch import Epoch
from ..flow._node import DROPPED
from ..flow._resume_marks import Mark, Replay
from ..flow._trace import Origin, Origins
from ..flow._user_code import origin_of_errors, record_origin
from ._proxy_flow import ProxyDataFlow

__all__ = ["FilterData", "FilterMark", "MapData"]

_log = logging.getLogger("towerpack_dataflow")


@final
class FilterMark(Mark):
    """The progress of a pass of a map that drops datapoints.

    Args:
        outer_epoch: outer epoch of the pass.
        epoch: number of the pass.
        given: number of datapoints the map has yielded.
        read: number of datapoints read from the flow below for them.
    """

    __slots__ = ("given", "read")

    fields = ("outer_epoch", "epoch", "given", "read")

    def __init__(self, outer_epoch: int, epoch: int, given: int = 0, read: int = 0) -> None:
        """Marks the beginning of a pass by default."""
        super().__init__(outer_epoch, epoch)
        self.given = given
        self.read = read

    @classmethod
    def before(cls, epoch: Epoch, start: int) -> FilterMark:
        """Returns the mark in `epoch` if it lies before datapoint `start`; else the beginning of the pass."""
        mark = cls.from_list(epoch.marks.get(epoch.key))
        if mark is None or not mark.belongs_to(epoch.outer_epoch, epoch) or mark.given > start:
            return cls(epoch.outer_epoch, int(epoch))
        return mark


class MapData(ProxyDataFlow):
    """Replaces each datapoint by a function's result; `None` drops the datapoint.

    **Dropping.** A map that drops nothing is addressable if the flow below is, and has the same length. One
    that drops is a stream of unknown length, because the *i*-th datapoint is known only by calling the
    function on all before it. The function itself does not show this, so the argument `drops` declares it. A
    function may drop without the declaration, and the pass is still exact: the datapoint is left out, batches
    above stay full, and from then on the map is a stream. It logs one warning, since an earlier `len()` was
    too large. States stay exact too: as long as nothing is dropped, index *i* above is index *i* below; the
    state of a map that drops has a mark, and such maps track their place below. A pass with an undeclared
    drop resumes by repeating it from its start.

    Two successive maps run in one loop, which makes them cheaper than two plain generators.

    Args:
        ds: the flow below.
        func: called with a datapoint; it may change its list or dict and return it. With `rng=True` called
            also with a `numpy.random.Generator`, seeded by (seed, place, epoch, index of the datapoint
            below).
        rng: whether `func` is called with a generator.
        drops: whether `func` is expected to drop.

    Raises:
        ArgumentTypeError: `func` cannot be called, or a switch is not a boolean.

    Example:
        >>> list(MapData([[1], [2], [3]], lambda dp: [dp[0] * 10]))
        [[10], [20], [30]]
        >>> odd = MapData([[1], [2], [3]], lambda dp: dp if dp[0] % 2 else None, drops=True)
        >>> list(odd)
        [[1], [3]]
    """

    def __init__(self, ds: Any, func: Callable[..., Any], *, rng: bool = False, drops: bool = False) -> None:
        """Stores the arguments; calls nothing."""
        super().__init__(ds)
        self._func: Callable[..., Any] = arguments.function(
            f"{type(self).__name__} takes a function of a datapoint", func
        )
        self._rng = arguments.flag("rng", rng)
        self._drops = self._announced = arguments.flag("drops", drops)

    def _expect_drops(self) -> None:
        """Declares that the map drops datapoints, as `drops=True` does."""
        self._drops = self._announced = True

    def __len__(self) -> int:
        """Returns the length of the flow below, as long as nothing was dropped.

        Raises:
            UnknownLengthError: this map drops.
        """
        if self._drops:
            raise UnknownLengthError._since(
                f"{self._name()} drops datapoints, so the length of a pass is unknown"
            )
        return len(self.ds)

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: as in the flow below, as long as nothing was dropped."""
        return not self._drops and self.ds.addressable

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self._drops:
            return self._filtered(epoch, start)
        if self._rng:
            return self._randomised(epoch, start)
        child = self.ds
        if isinstance(child, MapData) and child._is_plain():
            return self._paired(child, epoch, start)
        return self._single(epoch, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        below = self._below(epoch)
        datapoint = self.ds._datapoint(below, index)
        if datapoint is DROPPED:
            return DROPPED
        try:
            datapoint = self._func(datapoint, epoch.rng(index)) if self._rng else self._func(datapoint)
        except Exception as error:
            record_origin(error, self)
            raise
        if datapoint is None:
            self._warn_unexpected_drop(epoch, index)
            return DROPPED
        return datapoint

    def identity(self) -> dict[str, bool | int | str]:
        """Returns no settings: a state does not depend on the function."""
        return {}

    def origins(self, epoch: Epoch, index: int) -> Origins:
        """Returns the datapoint of the same index in the flow below."""
        notes = {"separate random numbers": True} if self._rng else None
        return Origins([Origin(self.ds, index, self._below(epoch))], notes)

    def _single(self, epoch: Epoch, start: int) -> Iterator[Any]:
        func = self._func
        with origin_of_errors(self):
            for datapoint in self.ds._datapoints(self._below(epoch), start):
                datapoint = func(datapoint)
                if datapoint is not None:
                    yield datapoint
                else:
                    self._warn_unexpected_drop(epoch, start)

    def _paired(self, lower: MapData, epoch: Epoch, start: int) -> Iterator[Any]:
        """Runs this map and the one below in one loop: cheaper than a second generator."""
        first, second = lower._func, self._func
        below = self._below(epoch)
        with origin_of_errors(self):
            for datapoint in lower.ds._datapoints(lower._below(below), start):
                try:
                    datapoint = first(datapoint)
                except Exception as error:
                    record_origin(error, lower)
                    raise
                if datapoint is None:
                    lower._warn_unexpected_drop(below, start)
                    continue
                datapoint = second(datapoint)
                if datapoint is not None:
                    yield datapoint
                else:
                    self._warn_unexpected_drop(epoch, start)

    def _randomised(self, epoch: Epoch, start: int) -> Iterator[Any]:
        func = self._func
        with origin_of_errors(self):
            for index, datapoint in enumerate(self.ds._datapoints(self._below(epoch), start), start):
                datapoint = func(datapoint, epoch.rng(index))
                if datapoint is not None:
                    yield datapoint
                else:
                    self._warn_unexpected_drop(epoch, start)

    def _filtered(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """Runs a pass of a map that drops, and updates its mark."""
        mark = epoch.marks[epoch.key] = FilterMark.before(epoch, start)
        func = self._func
        replay = Replay(self._name(), epoch, start - mark.given)
        with origin_of_errors(self):
            for index, datapoint in enumerate(self.ds._datapoints(self._below(epoch), mark.read), mark.read):
                datapoint = func(datapoint, epoch.rng(index)) if self._rng else func(datapoint)
                mark.read = index + 1
                if datapoint is None:
                    continue
                mark.given += 1
                if mark.given > start:
                    yield datapoint
                else:
                    replay.drop()

    def _warn_unexpected_drop(self, epoch: Epoch, start: int) -> None:
        """Makes this map one that drops, after a drop without `drops=True` in a pass made from `start` on."""
        # Up to its start nothing was dropped in this pass, or it would be running as _filtered. The mark is
        # needed even if another iterator has seen drops before: by it a state tells the kind of this map.
        epoch.marks.setdefault(epoch.key, FilterMark(epoch.outer_epoch, int(epoch), start, start))
        if self._drops:
            return
        self._drops = True
        _log.warning(
            "%s returned None, which drops the datapoint: len() was too large, and is unknown from here on. "
            "Set drops=True to have the right length from the start, and to resume faster",
            self._name(),
        )

    def _is_plain(self) -> bool:
        """Tells whether a map above may call this one's function in its own loop."""
        return not (self._rng or self._drops) and type(self)._datapoints is MapData._datapoints

    def _loaded(self, mark: Iterable[int] | None) -> None:
        self._drops = self._announced or mark is not None  # only maps that drop leave marks

    def _name(self) -> str:
        return (
            f"{type(self).__name__}({getattr(self._func, '__qualname__', None) or type(self._func).__name__})"
        )


@final
class FilterData(MapData):
    """Yields the datapoints for which a function is true; a stream of unknown length.

    Batches above stay full. A state holds the number of datapoints kept and the number read, so resuming over
    an addressable flow repeats no work.

    Args:
        ds: the flow below.
        predicate: called with a datapoint, which it must not change; with `rng=True` also with a
            `numpy.random.Generator`, seeded by (seed, place, epoch, index of the datapoint below).
        rng: whether `predicate` is called with a generator.

    Raises:
        ArgumentTypeError: `predicate` cannot be called, or `rng` is not a boolean; while iterating, the
            predicate is true for `None`.

    Example:
        >>> list(FilterData([[1], [2], [3]], lambda dp: dp[0] % 2 == 1))
        [[1], [3]]
    """

    def __init__(self, ds: Any, predicate: Callable[..., Any], *, rng: bool = False) -> None:
        """Stores the arguments; calls nothing."""
        self._predicate = predicate
        let_through = _LetThrough(predicate) if callable(predicate) else predicate
        super().__init__(ds, let_through, rng=rng, drops=True)


@final
class _LetThrough:
    """Adapts a predicate to a function that drops datapoints."""

    def __init__(self, predicate: Callable[..., Any]) -> None:
        self._predicate = predicate
        self.__qualname__ = getattr(predicate, "__qualname__", type(predicate).__name__)

    def __call__(self, datapoint: Any, *rng: np.random.Generator) -> Any:
        if not self._predicate(datapoint, *rng):
            return None
        if datapoint is None:
            raise ArgumentTypeError(
                "FilterData received the datapoint None and kept it, but None marks a dropped "
                "datapoint; let the flow below yield other datapoints, such as [None]"
            )
        return datapoint
