"""Where datapoints come from: lists, iterables and generators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from types import GeneratorType
from typing import Any

from .._errors import ArgumentTypeError, ExhaustedError, UnknownLengthError, blame
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._subclassing import outgoing, unshared, unshared_all
from ..storage._shared_list import PackedList, outgoing_list
from ._permutation import Permutation

_CHUNK = 256
_READY = frozenset({list, tuple, range, PackedList})  # their members cost little and raise nothing


class DataFromList(DataFlow):
    """The members of a list; addressable.

    Args:
        lst: a list, or another sequence. One that makes its members when asked is asked for them one by one.
        shuffle: whether each epoch has an order of its own.

    Raises:
        ArgumentTypeError: if `lst` is not a sequence.

    Example:
        >>> list(DataFromList([["a", 0], ["b", 1]], shuffle=False))
        [['a', 0], ['b', 1]]
    """

    addressable = True
    _holds = ()

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        """Keeps `lst` itself, no copy."""
        if not (hasattr(lst, "__len__") and hasattr(lst, "__getitem__")) or isinstance(
            lst, (str, bytes, dict)
        ):
            raise ArgumentTypeError(
                f"DataFromList takes a list or another sequence; got {type(lst).__name__}: "
                "use list(...) of it, or DataFromIterable"
            )
        self._lst = lst
        self._shuffle = shuffle
        self._last_order: tuple[Any, Permutation] | None = None

    def __len__(self) -> int:
        """The length of the list."""
        return len(self._lst)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        try:
            return unshared(self._lst[self._order(epoch).at(index) if self._shuffle else index])
        except Exception as error:
            blame(error, self)
            raise

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if type(self._lst) is range and not self._shuffle:
            return iter(self._lst[start:])
        if type(self._lst) in _READY:
            return chain.from_iterable(self._chunks(epoch, start))
        return self._one_by_one(epoch, start)

    def _chunks(self, epoch: Epoch, start: int) -> Iterator[list[Any]]:
        """References only, many at a time: what a datapoint costs here is paid by every user."""
        lst = self._lst
        for low, high in self._bounds(start):
            if self._shuffle:
                chunk = [lst[index] for index in self._order(epoch).stretch(low, high)]
            else:
                chunk = list(lst[low:high])
            yield unshared_all(chunk)

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        try:
            for low, high in self._bounds(start):
                for index in self._indices(epoch, low, high):
                    yield unshared(self._lst[index])
        except Exception as error:
            blame(error, self)
            raise

    def _bounds(self, start: int) -> Iterator[tuple[int, int]]:
        size = len(self._lst)
        return ((low, min(low + _CHUNK, size)) for low in range(start, size, _CHUNK))

    def _indices(self, epoch: Epoch, low: int, high: int) -> Sequence[int]:
        return self._order(epoch).stretch(low, high) if self._shuffle else range(low, high)

    def _order(self, epoch: Epoch) -> Permutation:
        key = (epoch.identity, len(self._lst))
        last = self._last_order
        if last is None or last[0] != key:
            last = self._last_order = (key, Permutation(len(self._lst), epoch.rng()))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Without the current order, which the seed says; a long list on its way to workers is packed."""
        return {**super().__getstate__(), "_last_order": None, "_lst": outgoing_list(self._lst)}


class DataFromIterable(DataFlow):
    """The members of anything that can be iterated; a stream.

    Its passes are as alike as the iterable makes them. `len()` is the iterable's, if it has one. An iterator
    or a generator object can be read once: it gives one pass, which `FixedSizeData` may cut into several.

    Args:
        iterable: what to iterate over, once a pass. Its `reset_state()` is called if it has one, so an object
            with the methods of a flow is welcome too.

    Raises:
        ArgumentTypeError: if it cannot be iterated, or is a `DataFlow` already.

    Example:
        >>> list(DataFromIterable({"a": 0, "b": 1}.items()))
        [('a', 0), ('b', 1)]
    """

    _holds = ()

    def __init__(self, iterable: Iterable[Any]) -> None:
        """Keeps `iterable`; reads nothing yet."""
        if isinstance(iterable, DataFlow):
            raise ArgumentTypeError(f"{iterable._name()} is a flow already; use it as it is")
        if not hasattr(iterable, "__iter__"):
            raise ArgumentTypeError(
                f"{type(self).__name__} takes something to iterate over; got {type(iterable).__name__}"
            )
        self._iterable = iterable
        self._one_shot = isinstance(iterable, Iterator)
        self._epoch_read: int | None = None
        self._taken = 0

    def __len__(self) -> int:
        """The iterable's own length.

        Raises:
            UnknownLengthError: if it has none.
        """
        try:
            return len(self._iterable)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):  # flows of the Tensorpack kind raise the latter
            raise UnknownLengthError(
                f"{self._name()} has no length, since what it iterates over has none; fix the length "
                "of a pass with FixedSizeData(flow, size)"
            ) from None

    def reset_state(self) -> None:
        """Passes on to the iterable, if it wants to know."""
        super().reset_state()
        reset = getattr(self._iterable, "reset_state", None)
        if callable(reset):
            reset()

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self._one_shot:
            return outgoing(self, self._continued(epoch, start))
        return outgoing(self, islice(self._open(), start, None))

    def _open(self) -> Iterator[Any]:
        return iter(self._iterable)

    def _continued(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """The only pass of a one-shot iterator, which can go on but not back."""
        if self._epoch_read not in {None, int(epoch)} or start < self._taken:
            raise ExhaustedError(
                f"{self._name()} holds a {type(self._iterable).__name__}, which can be read once, and "
                f"{self._taken} datapoints of epoch {self._epoch_read} are out; datapoint {start} of epoch "
                f"{int(epoch)} cannot be had. Pass a function that returns a new one to DataFromGenerator"
            )
        self._epoch_read = int(epoch)
        iterator = iter(self._iterable)
        for datapoint in iterator:
            self._taken += 1
            if self._taken > start:
                yield datapoint


class DataFromGenerator(DataFromIterable):
    """What a generator yields; a stream without length.

    Args:
        gen: a function that returns a new generator (or any iterable) for each pass; or a generator object,
            which can be read once (see `DataFromIterable`).

    Raises:
        ArgumentTypeError: if it is neither.

    Example:
        >>> def letters():
        ...     yield ["a"]
        ...     yield ["b"]
        >>> flow = DataFromGenerator(letters)
        >>> list(flow) == list(flow)
        True
    """

    _holds = ()

    def __init__(self, gen: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        """Keeps `gen`; calls nothing yet."""
        super().__init__(_Calls(gen) if callable(gen) and not isinstance(gen, Iterator) else gen)


class _Calls:
    """A function as an iterable: each pass calls it."""

    def __init__(self, gen: Callable[[], Iterable[Any]]) -> None:
        self._gen = gen

    def __iter__(self) -> Iterator[Any]:
        made = self._gen()
        if isinstance(made, GeneratorType) and made.gi_frame is None:
            raise ExhaustedError(
                f"{self._gen!r} returned a generator that is exhausted already; it must make a new one at "
                "each call"
            )
        return iter(made)


def as_dataflow(ds: Any) -> DataFlow:
    """`ds` itself if it is a flow; else a flow over a sequence, or over any iterable.

    Raises:
        ArgumentTypeError: if it is none of these.
    """
    if isinstance(ds, DataFlow):
        return ds
    if isinstance(ds, (list, tuple, range)):
        return DataFromList(ds, shuffle=False)
    if not hasattr(ds, "__iter__") or isinstance(ds, (str, bytes)):
        raise ArgumentTypeError(
            f"expected a DataFlow, a list, or something to iterate over again and again; got "
            f"{type(ds).__name__}"
        )
    return DataFromIterable(ds)


def known_length(ds: DataFlow) -> int | None:
    """The length of a flow, or `None` if it does not know."""
    try:
        return len(ds)
    except (TypeError, NotImplementedError):
        return None
