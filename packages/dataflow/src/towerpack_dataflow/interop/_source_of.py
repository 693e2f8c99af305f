"""Converts the data that other loaders take to a flow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, final

from .._errors import ArgumentError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._resume_marks import replayed
from ..flow._user_code import UserCode, run_pass
from ..operators._map_data import MapData
from ..sources._from_arrays import DataFromArrays
from ..sources._from_iterable import DataFromIterable, as_dataflow
from ..sources._from_list import DataFromList
from ._arrow_columns import arrow_columns
from ._collated_data import CollatedData
from ._nested import NestedBatchData
from .transforms import seeded

__all__ = ["batched_source"]


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
