"""Converts the data that other loaders take to a flow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, final

import numpy as np

from .._errors import ArgumentError, ArgumentTypeError
from ..batch._batch_division import checked_batch_size, hosts_of
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._resume_marks import replayed
from ..flow._trace import Origin
from ..flow._user_code import UserCode, origin_of_errors, run_pass
from ..operators._map_data import MapData
from ..operators._proxy_flow import ProxyDataFlow
from ..sources._from_arrays import DataFromArrays
from ..sources._from_iterable import DataFromIterable, DataFromList, as_dataflow
from ..storage import snapshot
from ._nested import NestedBatchData
from .transforms import seeded

__all__ = ["CollatedData", "arrow_columns", "batched_source"]


def arrow_columns(dataset: Any) -> dict[str, Any] | None:
    """Returns the columns of a `datasets.Dataset` for `DataFromArrays`.

    Args:
        dataset: the data set.

    Returns:
        The columns, by name; `None` if one has other values than numbers or lists of a fixed length, or has
        missing values, or if the data set has a format, a transform or reordered rows.
    """
    if dataset.format["type"] is not None or dataset._indices is not None or not len(dataset):
        return None
    table = dataset.data
    columns = [table.column(name) for name in dataset.column_names]
    if not columns or any(column.null_count or _number_type(column.type) is None for column in columns):
        return None
    return {name: _ArrowColumn(dataset, name) for name in dataset.column_names}


def _number_type(kind: Any) -> tuple[np.dtype, tuple[int, ...]] | None:
    """Returns dtype and shape of a row of an Arrow type; `None` without such arrays."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        inner = _number_type(kind.value_type)
        return None if inner is None or inner[1] else (inner[0], (kind.list_size,))
    if types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()), ()
    return None


@final
class _ArrowColumn:
    """One column, with the parts of an array that `DataFromArrays` needs; a copy maps the file again."""

    def __init__(self, dataset: Any, name: str) -> None:
        self._dataset, self._name = dataset, name
        found = _number_type(dataset.data.column(name).type)
        assert found is not None
        self.dtype, row = found
        self.shape = (len(dataset), *row)
        self._chunks: list[np.ndarray] = []
        self._starts = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            rows = np.arange(len(self))[rows]
        chunks = self._chunks or self._opened()
        if np.ndim(rows) == 0:
            number = int(np.searchsorted(self._starts, rows, "right")) - 1
            return chunks[number][int(rows) - int(self._starts[number])]
        if len(chunks) == 1:
            return chunks[0][rows]
        made = np.empty((len(rows), *self.shape[1:]), self.dtype)
        numbers = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(numbers):
            here = numbers == number
            made[here] = chunks[number][rows[here] - self._starts[number]]
        return made

    def _opened(self) -> list[np.ndarray]:
        parts = self._dataset.data.column(self._name).chunks
        flat = [part.flatten() if self.shape[1:] else part for part in parts]
        self._starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
        self._chunks = [part.to_numpy(zero_copy_only=True).reshape(-1, *self.shape[1:]) for part in flat]
        return self._chunks

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_chunks": []}


@final
class CollatedData(ProxyDataFlow):
    """Calls a function with the datapoints of each batch.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        remainder: whether the last, smaller batch is made or dropped.
        collate: called with a list of datapoints; returns the batch.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0, or is larger than `ds` without `remainder`.
        ArgumentTypeError: `collate` cannot be called.
    """

    def __init__(
        self, ds: Any, batch_size: int, remainder: bool, collate: Callable[[list[Any]], Any]
    ) -> None:
        """Checks the size against the length of `ds`, if it is known."""
        super().__init__(ds)
        self._batch_size = checked_batch_size(self.ds, batch_size, remainder)
        self._remainder = remainder
        if not callable(collate):
            raise ArgumentTypeError(
                f"collate is a function of a list of datapoints, or None; received {collate!r}"
            )
        self._collate = collate

    def __len__(self) -> int:
        """Returns the number of batches in a pass."""
        whole, rest = divmod(len(self.ds), self._batch_size)
        return whole + (self._remainder and rest > 0)

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the size of a batch over all hosts, and whether smaller ones are yielded."""
        return {"batch_size": self._batch_size * hosts_of(self.ds), "remainder": self._remainder}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        size = self._batch_size
        datapoints = self.ds._datapoints(self._below(epoch), start * size)
        with origin_of_errors(self):
            while members := [snapshot(datapoint) for datapoint in islice(datapoints, size)]:
                if len(members) < size and not self._remainder:
                    return
                batch = self._collate(members)
                del members
                yield batch
                del batch

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return next(self._datapoints(epoch, index), None)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a batch."""
        first, below = index * self._batch_size, self._below(epoch)
        return [
            Origin(self.ds, number, below)
            for number in range(first, min(first + self._batch_size, len(self.ds)))
        ]


def batched_source(
    data: Any,
    batch_size: int | None,
    shuffle: bool,
    drop_last: bool,
    collate: Callable[[list[Any]], Any] | None,
) -> DataFlow:
    """Returns the batches of a flow, a data set of PyTorch, or anything that a flow can read.

    Args:
        data: the data.
        batch_size: datapoints in a batch; `None` if the datapoints are batches already.
        shuffle: whether each epoch has another order.
        drop_last: whether a smaller last batch is dropped.
        collate: makes a batch from a list of datapoints; by default their leaves are stacked.

    Raises:
        ArgumentError: the arguments contradict each other.
    """
    flow = _source(data, shuffle)
    if batch_size is None:
        if collate is not None or drop_last:
            given = "collate=" if collate is not None else "drop_last="
            raise ArgumentError(
                f"{given} needs batch_size=; without it, each datapoint of the flow is a batch already"
            )
        return flow
    if collate is None:
        return NestedBatchData(flow, batch_size, remainder=not drop_last)
    return CollatedData(flow, batch_size, not drop_last, collate)


def _source(data: Any, shuffle: bool) -> DataFlow:
    if isinstance(data, DataFlow):
        if shuffle:
            raise ArgumentError(
                f"shuffle=True: a flow determines its own order, as in DataFromList(data, shuffle=True); "
                f"shuffle in {data._name()} instead"
            )
        return data
    if isinstance(data, (list, tuple, range)):
        return DataFromList(data, shuffle)
    if _is_a(data, "torch.utils.data", "TensorDataset"):
        return DataFromArrays(data.tensors, shuffle)
    if _is_a(data, "datasets", "Dataset") and (columns := arrow_columns(data)) is not None:
        return DataFromArrays(columns, shuffle)
    if _is_stream(data):
        if shuffle:
            raise ArgumentError(
                f"shuffle=True: {type(data).__name__} is a stream, without random access; shuffle in it, or "
                "use LocallyShuffleData"
            )
        return _Stream(data) if hasattr(data, "set_epoch") else DataFromIterable(data)
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or hasattr(data, "keys"):
        return as_dataflow(data)  # raises an error that lists the accepted types
    items = DataFromList(range(len(data)), shuffle)
    return MapData(items, seeded(data.__getitem__), rng=True)


def _is_stream(data: Any) -> bool:
    if _is_a(data, "torch.utils.data", "IterableDataset") or isinstance(data, Iterator):
        return True
    return hasattr(data, "__iter__") and not (hasattr(data, "__len__") and hasattr(data, "__getitem__"))


def _is_a(data: Any, module: str, name: str) -> bool:
    """Tells whether `data` is an object of a class whose module this process has imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(data, kind)


@final
class _Stream(DataFromIterable):
    """An iterable with another order in each epoch, such as an `IterableDataset` of Hugging Face."""

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        def opened() -> Iterator[Any]:
            self._iterable.set_epoch(int(epoch))  # type: ignore[attr-defined]
            return replayed(self._name(), epoch, self._open(), start)

        return run_pass(UserCode(self, epoch), opened)
