"""`refit`: converts a state to another number of hosts or batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._errors import StateError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._tree_fingerprint import known_length
from ..operators._proxy_flow import ProxyDataFlow
from ._batch_data import BatchData
from ._batch_division import BatchMark, hosts_of, keeps_indices, length_of_all, local_number

__all__ = ["refit"]


def refit(flow: DataFlow, state: Mapping[str, Any]) -> dict[str, Any]:
    """Translates a state of `BatchData` for any number of hosts and batch size into a state of `flow`.

    The rest of the epoch consists of the remaining datapoints, in order: batch *k* of all hosts is the *k*-th
    range of the rest, each with as many datapoints as all hosts now use per step. The index is chosen so that
    the epoch ends at the usual end of an epoch of `flow`; so some indices may have no batch. Later epochs are
    unaffected. Random numbers above the batches follow the new indices.

    Every host converts the same state, of any of the old hosts, for its own flow, and loads it before
    reading.

    Args:
        flow: `BatchData(ShardData(...), size)`, with maps and runners above and between them, or without
            shards.
        state: from `state_dict()` of such a flow with other shards, another batch size, or both.

    Raises:
        StateError: `state` does not belong to such a flow, or a flow above the batches or between them and
            the shards changes the number of datapoints.

    Example:
        >>> from towerpack_dataflow import DataFromList, ShardData
        >>> def host(index, count, size):
        ...     source = DataFromList([[number] for number in range(24)], shuffle=False)
        ...     return BatchData(ShardData(source, index, count), size, True)
        >>> state = host(0, 2, 2).state_at(3) | {"seed": 0}  # 12 datapoints were read
        >>> flows = [host(index, 3, 3) for index in range(3)]
        >>> for flow in flows:
        ...     flow.load_state_dict(refit(flow, state))
        >>> [[batch[0].tolist() for batch in flow] for flow in flows]
        [[[12, 15, 18], [21]], [[13, 16, 19], [22]], [[14, 17, 20], [23]]]
    """
    if not isinstance(state, Mapping) or not isinstance(state.get("flow"), Mapping):
        raise StateError(
            "a state that can be refitted is the dict that state_dict() returns, with its entry 'flow'; "
            f"received {state!r:.200}"
        )
    batches, epoch = _batches_of(flow, Epoch(state["epoch"], state["seed"]))
    settings = state["flow"].get(epoch.key)
    if not isinstance(settings, Mapping) or settings.get("kind") != "BatchData":
        raise StateError(f"the state is not of {flow!r}: it has no BatchData at {epoch.key or 'the top'!r}")
    seen = _seen(batches, epoch, state, settings["batch_size"])
    given, exact = _given(batches, seen)
    fingerprint = {**state["flow"], epoch.key: {**settings, "batch_size": batches.identity()["batch_size"]}}
    refitted = {key: value for key, value in state.items() if key != "marks"}
    if not exact:
        refitted["marks"] = {epoch.key: list(BatchMark(0, int(epoch), given, seen))}
    return {**refitted, "index": given, "flow": fingerprint}


def _batches_of(flow: DataFlow, epoch: Epoch) -> tuple[BatchData, Epoch]:
    while not isinstance(flow, BatchData):
        if not keeps_indices(flow):
            raise StateError(
                f"the state of {flow._name()} cannot be refitted: it is not a BatchData, or a flow over one "
                "that keeps the number of batches"
            )
        assert isinstance(flow, ProxyDataFlow)
        flow, epoch = flow.ds, flow._below(epoch)
    return flow, epoch


def _seen(batches: BatchData, epoch: Epoch, state: Mapping[str, Any], size: int) -> int:
    """Returns the number of datapoints of this epoch already yielded, over all hosts."""
    mark = BatchMark.from_list(state.get("marks", {}).get(epoch.key))
    if mark is None or not mark.belongs_to(0, epoch) or mark.given > state["index"]:
        mark = BatchMark(0, int(epoch), 0, 0)
    seen = mark.seen + (int(state["index"]) - mark.given) * size
    length = length_of_all(batches.ds)
    return seen if length is None else min(seen, length)


def _given(batches: BatchData, seen: int) -> tuple[int, bool]:
    """Returns the index to continue at, and whether the batch there is that of a whole epoch."""
    size, length = batches._batch_size, known_length(batches.ds)
    number, rest = divmod(seen, size * hosts_of(batches.ds))
    if not rest or length is None:
        return number, not rest
    left = max(length - local_number(batches.ds, seen), 0)
    return len(batches) - (-(-left // size) if batches._remainder else left // size), False
