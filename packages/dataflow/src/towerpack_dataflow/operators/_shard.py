"""`ShardData`: one host's share of a flow; `reshard`: converts a state to another number of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, NotAddressableError, StateError
from ..flow._columns import Columns
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._flow_state import lengths
from ..flow._node import DROPPED, Effect
from ..flow._trace import Origin
from ..flow._tree_fingerprint import known_length
from ._proxy_flow import ProxyDataFlow

__all__ = ["ShardData", "pick", "reshard"]


class ShardData(ProxyDataFlow):
    """Yields every `count`-th datapoint of the flow below, from datapoint `index` on.

    The shards 0 to `count - 1` of an epoch are disjoint and complete; their lengths differ by at most one.
    Taken in turn they yield the flow below in its order, for any seed: `ShardData` adds no randomness. An
    addressable flow makes only the datapoints of the shard; a stream makes all of them and drops the others,
    so put the shard directly over its source, and expensive operators above it.

    **Seed.** All hosts must divide the same order. So without a seed from `seed()` the flow below has seed 0
    on every host. `seed(n)` on a flow above applies below too, and must then be the same on all hosts. For
    random numbers *above* the shard that differ between hosts, seed the whole flow with the host's number and
    then the shard with a common one.

    **Resume.** The state of `BatchData(ShardData(flow, index, count), size)` fits any other `count` as long
    as `count * size` stays the same: batch *k* of all hosts together is the *k*-th range of the epoch. For
    a shard that is not batched, `reshard` translates the state.

    Args:
        ds: the flow below.
        index: number of the shard, from 0; `jax.process_index()`, `torch.distributed.get_rank()`, …
        count: number of shards.

    Raises:
        ArgumentError: `index` and `count` are not integers with 0 <= `index` < `count`.

    Example:
        >>> [list(ShardData(range(7), index, 3)) for index in range(3)]
        [[0, 3, 6], [1, 4], [2, 5]]
    """

    sharded = True
    effect = Effect(keeps_place=True, passes_on=True, steady=True)
    _seed: int | None = 0

    def __init__(self, ds: Any, index: int, count: int) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._count = arguments.count("count", count)
        self._index = _shard_number(index, self._count)

    def __len__(self) -> int:
        """Returns the number of datapoints of this shard."""
        return len(range(0 if lengths.of_first_host else self._index, len(self.ds), self._count))

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return _strided(self.ds, self._below(epoch), self._index + start * self._count, self._count)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return pick(self.ds, self._below(epoch), self._index + index * self._count)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint below that forms this host's datapoint."""
        return [Origin(self.ds, self._index + index * self._count)]

    def _columns(self) -> Columns | None:
        below = self.ds._columns()
        if below is None or known_length(self) == 0:
            return None

        def gather(epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
            first, stop = (self._index + number * self._count for number in (wanted.start, wanted.stop))
            below.gather(self._below(epoch), range(first, stop, wanted.step * self._count), out)

        return below._replace(gather=gather)

    def _name(self) -> str:
        return f"ShardData({self._index} of {self._count})"


def _strided(flow: DataFlow, epoch: Epoch, first: int, step: int) -> Iterator[Any]:
    """Yields every `step`-th datapoint of a pass from number `first` on; makes no others if possible."""
    if step == 1 or not flow.addressable:
        # Start after this shard's last datapoint: from a later start, a flow would skip the datapoints
        # between without making them, and would miss that a map drops some of them.
        begin = max(first - step + 1, 0)
        return islice(flow._datapoints(epoch, begin), first - begin, None, step)
    return _picked(flow, epoch, first, step)


def reshard(state: dict[str, Any], was: int, index: int, count: int) -> dict[str, Any]:
    """Translates the state of one of `was` shards into the state of shard `index` of `count`.

    For flows that count the datapoints of the shard: a `ShardData`, and maps over it. All `was` shards must
    be at the same index. The new shards, each with its own state, yield the remaining datapoints: each
    exactly once, in the order of the whole if taken in turn.

    Args:
        state: from `state_dict()` of any of the old shards.
        was: the old number of shards.
        index: the shard of the new state.
        count: the new number of shards.

    Raises:
        ArgumentError: the numbers do not describe shards.
        StateError: `state` is not the state of a flow.

    Example:
        >>> state = {"seed": 0, "epoch": 2, "index": 5}
        >>> [reshard(state, was=4, index=index, count=3)["index"] for index in range(3)]
        [7, 7, 6]
    """
    if not isinstance(state, Mapping) or "index" not in state:
        raise StateError(f"a state is the dict that state_dict() returns; received {state!r}")
    seen = arguments.count("was", was) * arguments.count("the state's index", state["index"], least=0)
    count = arguments.count("count", count)
    # The count of the numbers index, index + count, … below `seen`.
    return {**state, "index": max(-((_shard_number(index, count) - seen) // count), 0)}


def _shard_number(index: int, count: int) -> int:
    number = arguments.count("index", index, least=0)
    if number >= count:
        raise ArgumentError(f"index={number} of count={count} shards: they are numbered 0 to {count - 1}")
    return number


def _picked(flow: DataFlow, epoch: Epoch, first: int, step: int) -> Iterator[Any]:
    for index in range(first, len(flow), step):
        yield pick(flow, epoch, index)


def pick(flow: DataFlow, epoch: Epoch, index: int) -> Any:
    """Makes one datapoint of an addressable flow, which must not drop it.

    Raises:
        NotAddressableError: the flow dropped it.
    """
    datapoint = flow._datapoint(epoch, index)
    if datapoint is DROPPED:
        raise NotAddressableError(
            f"datapoint {index} of {flow._name()} was dropped without a declaration: the other shards would "
            "continue their count without it. Declare it on every host with MapData(..., drops=True)"
        )
    return datapoint
