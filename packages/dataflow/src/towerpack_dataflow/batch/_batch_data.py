"""`BatchData`: stacks datapoints into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ..flow._columns import Blocks, Columns, alone
from ..flow._epoch import Epoch, as_lists
from ..flow._node import Effect
from ..flow._trace import Origin
from ..flow._tree_fingerprint import known_length
from ..flow._user_code import origin_of_errors
from ..operators._proxy_flow import ProxyDataFlow
from ._batch_division import checked_batch_size, first_number, hosts_of
from ._buffer_pool import BatchAllocator, BufferPool, freeze
from ._collate import Collator
from ._collated_blocks import BYTES_OF_BLOCK, collated_blocks

__all__ = ["BatchData"]

_NOT_COPIED = frozenset({"_memory", "_read_only"})


class BatchData(ProxyDataFlow):
    """Stacks the datapoints of the flow below, component by component.

    The batch has the type of the datapoints (list, tuple, dict). Arrays and NumPy scalars keep their dtype.
    Python's `bool` becomes bool, `int` int32, `float` float32, `complex` complex64 in each batch; strings and
    bytes become object arrays. A list or tuple of numbers as a component becomes an array of int64 or
    float64; for another dtype, convert it to an array in a map below. Nothing else is converted.

    Python floats are rounded to float32, as literals like 0.1 are. A number that would change in another way
    is rejected: an integer beyond int32, a float above 2**24 that float32 does not represent. So are masked
    arrays with masked values, and arrays of a class that adds a unit or other attributes. A map below can set
    the type of such a component: `MapDataComponent(ds, numpy.int64, "id")`. Large batches reuse the memory of
    earlier ones once no view of those exists.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        remainder: whether the last, smaller batch is yielded or dropped.
        use_list: whether each component is a list of unstacked values; for values of varying shape.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0, or is larger than `ds` without `remainder`.
        ArgumentTypeError: a switch is not a boolean.
        BatchError: datapoints cannot be stacked; raised while iterating.

    Example:
        >>> flow = BatchData([[1, 0.5], [2, 1.5], [3, 2.5]], 2, remainder=True)
        >>> [numbers.tolist() for numbers, _ in flow]
        [[1, 2], [3]]
    """

    effect = Effect(steady=True)  # memory with a view of an earlier batch is not written again
    # The source of memory for batches. A runtime with its own memory sets this before iterating.
    _memory: BatchAllocator | None = None
    _read_only = False
    _collator: Any = Collator  # A subclass with another one builds no blocks.

    def __init__(self, ds: Any, batch_size: int, remainder: bool = False, use_list: bool = False) -> None:
        """Checks the size against the length of `ds`, if it is known."""
        super().__init__(ds)
        self._batch_size = checked_batch_size(self.ds, batch_size, remainder)
        self._remainder = remainder
        self._use_list = arguments.flag("use_list", use_list)

    @staticmethod
    def aggregate_batch(datapoints: Sequence[Any], use_list: bool = False) -> Any:
        """Returns the batch that `BatchData` makes from datapoints.

        Args:
            datapoints: at least one.
            use_list: whether each component is a list of unstacked values.

        Raises:
            ArgumentError: `datapoints` is empty.
            BatchError: the datapoints cannot be stacked.

        Example:
            >>> numbers, words = BatchData.aggregate_batch([[1, "a"], [2, "b"]])
            >>> numbers.tolist(), words.tolist()
            ([1, 2], ['a', 'b'])
        """
        if not len(datapoints):
            raise ArgumentError("aggregate_batch takes at least one datapoint; received none")
        collator = Collator(len(datapoints), arguments.flag("use_list", use_list))
        for datapoint in datapoints:
            collator.add(datapoint)
        return collator.take()

    def __len__(self) -> int:
        """Returns the number of batches in a pass."""
        whole, rest = divmod(len(self.ds), self._batch_size)
        return whole + (self._remainder and rest > 0)

    @property
    def fixed_batch_size(self) -> int | None:
        """The batch size; None if there may be a smaller batch, or components are lists."""
        return None if self._remainder or self._use_list else self._batch_size

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the size of a batch over all hosts, and whether smaller ones are yielded.

        Batch *k* of all hosts is the *k*-th range of an epoch, for any number of hosts.
        """
        size = self._batch_size * hosts_of(self.ds)
        return {"batch_size": size, "remainder": self._remainder}

    def lend_read_only(self) -> None:
        """Makes arrays read-only from the next batch on; input sources then need not copy large ones."""
        self._read_only = True
        if self._use_list:
            self.ds.lend_read_only()

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        columns = self._columns_below()
        if columns is None:
            return self._collated(epoch, start)
        most = columns.most_at_once(self._batch_size)
        if most == 1 or type(self._own_memory()) is not BufferPool:  # memory of others is for one batch
            return self._gathered(columns, epoch, start)
        return self._divided(columns, epoch, start, most)

    def _columns_below(self) -> Columns | None:
        """Returns the layout of the batches if the flow below fills them."""
        return None if self._use_list else self.ds._columns()

    def _gathered(self, columns: Columns, epoch: Epoch, start: int) -> Iterator[Any]:
        """Yields batches written by the flow below, without making datapoints."""
        below, memory = self._below(epoch), self._own_memory()
        with origin_of_errors(self):
            for wanted in self._index_ranges(epoch, start):
                batch = columns.batch(below, wanted, memory.allocate(columns.rows(len(wanted))))
                yield self._finished(self._stacked(below, wanted) if batch is None else batch)
                del batch  # its memory is for one of the next

    def _divided(self, columns: Columns, epoch: Epoch, start: int, most: int) -> Iterator[Any]:
        """Yields batches of which several are written by one call."""
        for block, count, _ in self._gathered_blocks(columns, epoch, start, most, 1):
            frozen = self._read_only  # views of what is frozen now are, too
            rows = list(_values(self._finished(block)))
            for number in range(count):
                batch = columns.assembled([each[number] for each in rows])
                yield batch if frozen else self._finished(batch)

    def _blocks(self, epoch: Epoch, start: int, most: int, first: int) -> Blocks | None:
        if self._use_list or type(self._own_memory()) is not BufferPool:
            return None
        columns = self._columns_below()
        if columns is None:
            collates = type(self)._collated is BatchData._collated and self._collator is Collator
            return self._collated_blocks(epoch, start, most, first) if collates and not self.live else None
        most = min(most, columns.most_at_once(self._batch_size, BYTES_OF_BLOCK))
        return self._gathered_blocks(columns, epoch, start, most, min(first, most)) if most > 1 else None

    def _gathered_blocks(self, columns: Columns, epoch: Epoch, start: int, most: int, first: int) -> Blocks:
        """Yields blocks of batches written by the flow below, each with its number of batches."""
        size, below = self._batch_size, self._below(epoch)
        with origin_of_errors(self):
            for wanted in self._index_ranges(epoch, start, most, first):
                whole = wanted[: len(wanted) // size * size]
                if whole and (rows := columns.gathered(below, whole)) is not None:
                    yield columns.divided(rows, size), len(whole) // size, ()
                    wanted = wanted[len(whole) :]
                for low in range(0, len(wanted), size):  # a smaller batch, or those around one that fails
                    numbers = wanted[low : low + size]
                    batch = columns.batch(below, numbers, columns.empty(len(numbers)))
                    yield alone(self._stacked(below, numbers) if batch is None else batch), 1, ()

    def _stacked(self, below: Epoch, wanted: range) -> Any:
        """Returns a batch of datapoints that have no common layout."""
        return self.aggregate_batch([self.ds._datapoint(below, number) for number in wanted])

    def _first(self, epoch: Epoch, index: int) -> int:
        """Returns the number of the first datapoint of a batch."""
        return first_number(self.ds, epoch, index, self._batch_size)

    def _index_ranges(self, epoch: Epoch, start: int, most: int = 1, first: int = 1) -> Iterator[range]:
        """Yields the numbers of the datapoints from batch `start` on: of `first` batches, up to `most`."""
        low, size, length = self._first(epoch, start), self._batch_size, known_length(self.ds)
        stop = length if length is None or self._remainder else length - (length - low) % size
        count = first
        while stop is None or low < stop:
            high = low + size * count
            yield range(low, high if stop is None else min(high, stop))
            low, count = high, min(2 * count, most)

    def _collated(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = self._first(epoch, start)
        collator = self._collator(self._batch_size, self._use_list, self._own_memory(), first)
        with origin_of_errors(self):
            datapoints = iter(self.ds._datapoints(self._below(epoch), first))
            while collator.extend(datapoints, self._batch_size):
                yield self._finished(collator.take())
            if self._remainder and collator.count:
                yield self._finished(collator.take())

    def _collated_blocks(self, epoch: Epoch, start: int, most: int, first: int) -> Blocks:
        number, memory = self._first(epoch, start), self._own_memory()
        with origin_of_errors(self):
            for block, count, marks in collated_blocks(
                iter(self.ds._datapoints(self._below(epoch), number)),
                self._batch_size,
                (first, most),
                lambda length, read: Collator(length, memory=memory, number=number + read),
                lambda: as_lists(epoch.marks),
                self._remainder,
            ):
                yield self._finished(block), count, marks

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a batch."""
        below = self._below(epoch)
        return [Origin(self.ds, number, below) for number in next(self._index_ranges(epoch, index))]

    def _own_memory(self) -> BatchAllocator:
        if self._memory is None:
            self._memory = BufferPool()
        return self._memory

    def _finished(self, batch: Any) -> Any:
        if self._read_only:
            for value in _values(batch):
                freeze(value)
        return batch

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return next(self._datapoints(epoch, index), None)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out memory and readers; a copy creates them again."""
        return {key: value for key, value in super().__getstate__().items() if key not in _NOT_COPIED}

    def _name(self) -> str:
        return f"BatchData({self._batch_size})"


def _values(batch: Any) -> Iterable[Any]:
    return batch.values() if isinstance(batch, dict) else batch
