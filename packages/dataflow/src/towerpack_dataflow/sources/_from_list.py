"""`DataFromList`: the members of a list as datapoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._node import Effect
from ..flow._trace import Origins
from ..flow._user_code import copy_container, copy_containers, record_origin
from ..storage import PackedList, list_to_pickle
from ._permutation import Permutation

__all__ = ["DataFromList"]

_CHUNK = 256
_CHEAP = frozenset({list, tuple, range, PackedList})  # reading a member costs little and raises nothing


class DataFromList(DataFlow):
    """Yields the members of a list; addressable.

    Args:
        lst: a list, or another sequence. Members of other sequence types are read one at a time.
        shuffle: whether each epoch has a different order.

    Raises:
        ArgumentTypeError: `lst` is not a sequence, or `shuffle` is not a boolean.

    Example:
        >>> list(DataFromList([["a", 0], ["b", 1]], shuffle=False))
        [['a', 0], ['b', 1]]
    """

    addressable = True

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        """Stores a reference to `lst`, not a copy."""
        if not (hasattr(lst, "__len__") and hasattr(lst, "__getitem__")) or isinstance(
            lst, (str, bytes, dict)
        ):
            raise ArgumentTypeError(
                f"DataFromList takes a list or another sequence; received {type(lst).__name__}: "
                "convert it with list(...), or DataFromIterable"
            )
        self._lst = lst
        self._shuffle = arguments.flag("shuffle", shuffle)
        self._last_order: tuple[Any, Permutation] | None = None

    def __len__(self) -> int:
        """Returns the length of the list."""
        return len(self._lst)

    def children(self) -> tuple[()]:
        """Returns no flows."""
        return ()

    @property
    def effect(self) -> Effect:  # type: ignore[override]
        """Steady if reading a member runs no code of the list."""
        return Effect(steady=type(self._lst) in _CHEAP)

    def origins(self, epoch: Epoch, index: int) -> Origins:
        """Returns no origins, and the member of the list as a note."""
        return Origins(notes={"member": int(self._order(epoch).at(index)) if self._shuffle else index})

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        try:
            return copy_container(self._lst[self._order(epoch).at(index) if self._shuffle else index])
        except Exception as error:
            record_origin(error, self)
            raise

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if type(self._lst) is range and not self._shuffle:
            return iter(self._lst[start:])
        if type(self._lst) in _CHEAP:
            return chain.from_iterable(self._chunks(epoch, start))
        return self._one_by_one(epoch, start)

    def _chunks(self, epoch: Epoch, start: int) -> Iterator[list[Any]]:
        """Reads only references, many at a time: the cost per datapoint here is paid by every flow above."""
        lst = self._lst
        for low, high in self._bounds(start):
            if self._shuffle:
                chunk = [lst[index] for index in self._order(epoch).index_range(low, high)]
            else:
                chunk = list(lst[low:high])
            yield copy_containers(chunk)

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        try:
            for low, high in self._bounds(start):
                for index in self._indices(epoch, low, high):
                    yield copy_container(self._lst[index])
        except Exception as error:
            record_origin(error, self)
            raise

    def _bounds(self, start: int) -> Iterator[tuple[int, int]]:
        size = len(self._lst)
        return ((low, min(low + _CHUNK, size)) for low in range(start, size, _CHUNK))

    def _indices(self, epoch: Epoch, low: int, high: int) -> Sequence[int]:
        return self._order(epoch).index_range(low, high) if self._shuffle else range(low, high)

    def _order(self, epoch: Epoch) -> Permutation:
        """Returns the order of an epoch, cached while the epoch and the length are the same."""
        key = (epoch.identity, len(self._lst))
        last = self._last_order
        if last is None or last[0] != key:
            last = self._last_order = (key, Permutation(len(self._lst), epoch.rng()))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the current order, which follows from the seed; packs a long list for workers."""
        return {**super().__getstate__(), "_last_order": None, "_lst": list_to_pickle(self._lst)}
