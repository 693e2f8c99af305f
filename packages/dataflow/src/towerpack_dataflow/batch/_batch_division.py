"""The division of datapoints into batches and among hosts: sizes, and the position of each host."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, StateError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._resume_marks import Mark
from ..flow._tree_fingerprint import known_length
from ..flow._written_flow import WrittenFlow
from ..operators._map_data import MapData
from ..operators._proxy_flow import ProxyDataFlow
from ..operators._shard import ShardData
from ..sources._from_iterable import DataFromList

__all__ = [
    "BatchMark",
    "checked_batch_size",
    "first_number",
    "hosts_of",
    "keeps_indices",
    "length_of_all",
    "local_number",
]


def checked_batch_size(flow: Any, batch_size: int, remainder: bool) -> int:
    """Checks and returns the size of batches.

    Args:
        flow: the flow of the datapoints.
        batch_size: the largest number of datapoints in a batch.
        remainder: whether the last batch of a pass may be smaller.

    Raises:
        ArgumentError: the size is not an integer above 0, or there would be no batch.
        ArgumentTypeError: `remainder` is not a boolean.
    """
    size = arguments.count("batch_size", batch_size)
    length = known_length(flow)
    if not arguments.flag("remainder", remainder) and length is not None and size > length:
        raise ArgumentError(
            f"batch_size={batch_size} is more than the {length} datapoints of a pass, so there would be "
            f"no batch; use a smaller one, or remainder=True{_columns_hint(flow)}"
        )
    return size


def _columns_hint(flow: Any) -> str:
    """Returns a hint if the flow is a list of arrays, each a column of examples."""
    columns = flow._lst if isinstance(flow, DataFromList) else ()
    if not isinstance(columns, (list, tuple)):  # such as a data set of PyTorch, which is slow to read
        return ""
    if not columns or not all(isinstance(column, np.ndarray) for column in columns):
        return ""
    return ". For arrays with one example per row, use DataFromArrays([images, labels])"


@final
class BatchMark(Mark):
    """The start of the batches of a pass that continues with other hosts or another batch size.

    Args:
        outer_epoch: outer epoch of the pass.
        epoch: number of the pass.
        given: number of the first batch.
        seen: number of datapoints of the pass yielded before it, over all hosts.
    """

    __slots__ = ("given", "seen")

    fields = ("outer_epoch", "epoch", "given", "seen")

    def __init__(self, outer_epoch: int, epoch: int, given: int, seen: int) -> None:
        """Marks the start of the rest."""
        super().__init__(outer_epoch, epoch)
        self.given = given
        self.seen = seen


def first_number(flow: DataFlow, epoch: Epoch, index: int, size: int) -> int:
    """Returns the index of the first datapoint of a batch over `flow`; `epoch` is that of the batches."""
    mark = BatchMark.from_list(epoch.marks.get(epoch.key)) if epoch.marks else None
    if mark is None or not mark.belongs_to(epoch.outer_epoch, epoch) or index < mark.given:
        return index * size
    return local_number(flow, mark.seen) + (index - mark.given) * size


def hosts_of(flow: DataFlow) -> int:
    """Returns the number of hosts that share the datapoints of a flow."""
    count = flow._count if isinstance(flow, ShardData) else 1
    below = flow.children()
    return count * hosts_of(below[0]) if len(below) == 1 else count


def keeps_indices(flow: DataFlow) -> bool:
    """Tells whether datapoint *i* of a flow is made of datapoint *i* below it alone."""
    return (
        isinstance(flow, ProxyDataFlow)
        and type(flow).origins in (ProxyDataFlow.origins, MapData.origins)
        and not isinstance(flow, WrittenFlow)
        and (flow.addressable or flow.effect.keeps_place or isinstance(flow, MapData))
        and known_length(flow) == known_length(flow.ds)
        and not getattr(flow, "_drops", False)
    )


def local_number(flow: DataFlow, number: int) -> int:
    """Returns this host's share of the first `number` datapoints of all hosts.

    Raises:
        StateError: a flow between `flow` and the shards changes the number of datapoints.
    """
    if hosts_of(flow) == 1:
        return number
    if isinstance(flow, ShardData):
        return max(-((flow._index - local_number(flow.ds, number)) // flow._count), 0)
    return local_number(_next(flow), number)


def length_of_all(flow: DataFlow) -> int | None:
    """Returns the number of datapoints of all hosts together; `None` if unknown.

    Raises:
        StateError: as for `local_number`.
    """
    if hosts_of(flow) == 1:
        return known_length(flow)
    return length_of_all(flow.ds if isinstance(flow, ShardData) else _next(flow))


def _next(flow: DataFlow) -> DataFlow:
    if not keeps_indices(flow):
        raise StateError(
            f"{flow._name()} lies between the batches and ShardData, and changes the number of datapoints, "
            "so that a state of other hosts or batches cannot be converted; put the batches directly "
            "above ShardData"
        )
    assert isinstance(flow, ProxyDataFlow)
    return flow.ds
