"""Flows over lists, iterables and generators; `as_dataflow` makes one of any object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from types import GeneratorType
from typing import Any

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError, ExhaustedError, UnknownLengthError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._node import Effect
from ..flow._resume_marks import Replay, replayed
from ..flow._trace import Origins
from ..flow._user_code import (
    UserCode,
    copy_container,
    copy_containers,
    origin_of_errors,
    record_origin,
    run_pass,
)
from ..storage import LabelledPaths, PackedList, list_to_pickle
from ._permutation import Permutation

__all__ = ["DataFromGenerator", "DataFromIterable", "DataFromList", "as_dataflow"]


# The first chunk is short: workers that take turns often read no more than a batch from one place.
_FIRST_CHUNK, _CHUNK = 64, 256
# Reading a member costs little and raises nothing.
_CHEAP = frozenset({list, tuple, range, LabelledPaths, PackedList})


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

    def _chunks(self, epoch: Epoch, start: int) -> Iterator[Iterable[Any]]:
        """Reads only references, many at a time: the cost per datapoint here is paid by every flow above."""
        lst = self._lst
        for low, high in self._bounds(start):
            if self._shuffle:
                chunk = [lst[index] for index in self._order(epoch).index_range(low, high)]
            else:
                chunk = list(lst[low:high])
            yield copy_containers(chunk)

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        with origin_of_errors(self):
            for low, high in self._bounds(start):
                for index in self._indices(epoch, low, high):
                    yield copy_container(self._lst[index])

    def _bounds(self, start: int) -> Iterator[tuple[int, int]]:
        low, size, count = start, len(self._lst), _FIRST_CHUNK
        while low < size:
            yield low, min(low + count, size)
            low, count = low + count, _CHUNK

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


class DataFromIterable(DataFlow):
    """Yields the members of an iterable; a stream.

    Passes are alike if the iterable repeats itself. `len()` is that of the iterable, if it has one. An
    iterator or a generator object can be read once: it yields one pass, which `FixedSizeData` may divide into
    several.

    Args:
        iterable: iterated over once per pass. Its `reset_state()` is called if it has one, so that an object
            with the methods of a flow may be passed too.
        live: whether its datapoints cannot be read again (a queue, a simulator); see `DataFlow`.

    Raises:
        ArgumentTypeError: `iterable` cannot be iterated over, or is a `DataFlow` already; or `live` is not a
            boolean.

    Example:
        >>> list(DataFromIterable({"a": 0, "b": 1}.items()))
        [('a', 0), ('b', 1)]
    """

    def __init__(self, iterable: Iterable[Any], live: bool = False) -> None:
        """Stores `iterable`; reads nothing."""
        if isinstance(iterable, DataFlow):
            raise ArgumentTypeError(f"{iterable._name()} is a flow already; use it as it is")
        if not hasattr(iterable, "__iter__"):
            raise ArgumentTypeError(
                f"{type(self).__name__} takes an iterable; received {type(iterable).__name__}"
            )
        self._iterable = iterable
        self._live = arguments.flag("live", live)
        self._one_shot = isinstance(iterable, Iterator)
        self._epoch_read: int | None = None
        self._taken = 0

    def __len__(self) -> int:
        """Returns the length of the iterable.

        Raises:
            UnknownLengthError: the iterable has no length.
        """
        try:
            return len(self._iterable)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):  # flows in Tensorpack's style raise the latter
            reason = f"{self._name()} has no length, since its iterable has none"
            raise UnknownLengthError._since(reason) from None

    def children(self) -> tuple[()]:
        """Returns no flows."""
        return ()

    @property
    def live(self) -> bool:
        """Whether datapoints of the iterable cannot be read again."""
        return self._live

    def reset_state(self) -> None:
        """Calls the iterable's `reset_state()`, if it has one."""
        super().reset_state()
        reset = getattr(self._iterable, "reset_state", None)
        if callable(reset):
            reset()

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self.live:
            return run_pass(UserCode(self, epoch), self._open)
        if self._one_shot:
            return run_pass(UserCode(self, epoch), lambda: self._continued(epoch, start))
        return run_pass(UserCode(self, epoch), lambda: replayed(self._name(), epoch, self._open(), start))

    def _open(self) -> Iterator[Any]:
        return iter(self._iterable)

    def _continued(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """Runs the only pass of a one-shot iterator, which can continue but not restart."""
        if self._epoch_read not in {None, int(epoch)} or start < self._taken:
            raise ExhaustedError(
                f"{self._name()} holds a {type(self._iterable).__name__}, which can be read once, and "
                f"{self._taken} datapoints of epoch {self._epoch_read} were read; datapoint {start} of epoch "
                f"{int(epoch)} is not available. Pass a function that returns a new one to DataFromGenerator"
            )
        self._epoch_read = int(epoch)
        replay = Replay(self._name(), epoch, start - self._taken)
        for datapoint in self._open():
            self._taken += 1
            if self._taken > start:
                yield datapoint
            else:
                replay.drop()


class DataFromGenerator(DataFromIterable):
    """Yields the datapoints of a generator; a stream without length.

    Args:
        gen: a function that returns a new generator (or any iterable) for each pass; or a generator object,
            which can be read once (see `DataFromIterable`).
        live: whether its datapoints cannot be read again (a queue, a simulator); see `DataFlow`.

    Raises:
        ArgumentTypeError: `gen` is neither of these, or `live` is not a boolean.

    Example:
        >>> def letters():
        ...     yield ["a"]
        ...     yield ["b"]
        >>> flow = DataFromGenerator(letters)
        >>> list(flow) == list(flow)
        True
    """

    def __init__(self, gen: Callable[[], Iterable[Any]] | Iterable[Any], live: bool = False) -> None:
        """Stores `gen`; calls nothing."""
        iterable = _GeneratorFunction(gen) if callable(gen) and not isinstance(gen, Iterator) else gen
        super().__init__(iterable, live)
        self._gen = iterable


class _GeneratorFunction:
    """An iterable that calls a generator function for each pass."""

    def __init__(self, gen: Callable[[], Iterable[Any]]) -> None:
        self._gen = gen
        self.__qualname__ = getattr(gen, "__qualname__", type(gen).__name__)

    def __iter__(self) -> Iterator[Any]:
        made = self._gen()
        if isinstance(made, GeneratorType) and made.gi_frame is None:
            raise ExhaustedError(
                f"{self._gen!r} returned a generator that is already exhausted; return a new one from "
                "each call"
            )
        return iter(made)


def as_dataflow(ds: Any) -> DataFlow:
    """Returns `ds` itself if it is a flow; else a flow over a sequence, or over any iterable.

    A sequence has `__len__` and `__getitem__`, like a data set of PyTorch. An object that also has `keys` is
    a mapping or a table; its members are not those at 0, 1, …

    Raises:
        ArgumentTypeError: `ds` is none of the above.
    """
    if isinstance(ds, DataFlow):
        return ds
    if isinstance(ds, (list, tuple, range)) or _is_sequence(ds):
        return DataFromList(ds, shuffle=False)
    if not hasattr(ds, "__iter__") or isinstance(ds, (str, bytes)):
        raise ArgumentTypeError(
            "expected a DataFlow, a list, an object with __len__ and __getitem__, or an object that can be "
            f"iterated repeatedly; received {type(ds).__name__}"
            + (". For a function that returns an iterator, use DataFromGenerator(it)" if callable(ds) else "")
        )
    return DataFromIterable(ds)


def _is_sequence(ds: Any) -> bool:
    if isinstance(ds, (str, bytes, type)) or hasattr(ds, "keys"):
        return False
    return hasattr(ds, "__len__") and hasattr(ds, "__getitem__")
