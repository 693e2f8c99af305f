"""Checks that a training run can continue with another number of hosts and another batch size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from ..batch._refit import refit
from ._check_dataflow import ConformanceError, same, shortened

__all__ = ["check_elastic"]

_SEED = 20_000
_HOSTS = (1, 2, 3, 5, 7)
_SIZES = (1, 2, 3)
_END = object()

Make = Callable[[int, int, int], Any]


def check_elastic(make: Make, *, hosts: Sequence[int] = _HOSTS, sizes: Sequence[int] = _SIZES) -> None:
    """Checks that an epoch can be stopped anywhere and continued with other hosts and batches.

    It stops hosts of one number, with batches of one size, in the middle of an epoch, continues with each
    other number and size by `refit`, stops these, too, and continues with the next. The datapoints of the
    hosts in turn must be those of the whole, in order: no duplicates, and only those of an incomplete batch
    missing.

    Args:
        make: called with the index of a host, the number of hosts and the size of a batch on each; returns a
            flow such as `BatchData(ShardData(flow, index, count), size)`, built alike each time.
        hosts: numbers of hosts to continue with.
        sizes: sizes of batches to continue with.

    Raises:
        ConformanceError: names the first difference.

    Example:
        >>> from towerpack_dataflow import BatchData, DataFromList, ShardData
        >>> source = DataFromList([[number] for number in range(60)])
        >>> check_elastic(lambda index, count, size: BatchData(ShardData(source, index, count), size, True))
    """
    whole = _rest(make, 1, 1, None)
    for was in hosts:
        for size in sizes:
            state = _stopped(make, was, size, None, max(len(whole) // (3 * was * size), 1))
            given = min(state["index"] * was * size, len(whole))
            for count in hosts:
                for other in sizes:
                    what = f"after {was} hosts with batches of {size}, {count} with batches of {other}"
                    _expect(_rest(make, count, other, state), whole[given:], count * other, what)
            again = _stopped(make, hosts[-1], sizes[-1], state, 1)
            given = min(given + hosts[-1] * sizes[-1], len(whole))
            what = f"after {was} and {hosts[-1]} hosts, 2"
            _expect(_rest(make, 2, sizes[0], again), whole[given:], 2 * sizes[0], what)


def _hosts(make: Make, count: int, size: int, state: Any) -> list[Any]:
    flows = []
    for index in range(count):
        flow = make(index, count, size)
        flow.seed(_SEED)
        if state is not None:
            flow.load_state_dict(json.loads(json.dumps(refit(flow, state))))
        flows.append(flow)
    return flows


def _stopped(make: Make, count: int, size: int, state: Any, batches: int) -> Any:
    """Returns the state of the first host after each has taken `batches` batches."""
    first = _hosts(make, count, size, state)[0]
    for _ in islice(iter(first), batches):
        pass
    return first.state_dict()


def _rest(make: Make, count: int, size: int, state: Any) -> list[Any]:
    """Returns the rest of the epoch on all hosts, datapoint by datapoint in the order of the whole."""
    flows = _hosts(make, count, size, state)
    return [datapoint for step in zip_longest(*flows, fillvalue=None) for datapoint in _in_turn(step)]


def _in_turn(step: Sequence[Any]) -> Iterator[Any]:
    rows = [[] if batch is None else _rows(batch) for batch in step]
    for turn in zip_longest(*rows, fillvalue=_END):
        yield from (row for row in turn if row is not _END)


def _rows(batch: Any) -> list[Any]:
    components = list(batch.values()) if isinstance(batch, dict) else list(batch)
    return [[component[row] for component in components] for row in range(len(components[0]))]


def _expect(received: list[Any], expected: list[Any], step: int, what: str) -> None:
    # Hosts with a share shorter by one stand last; then turns do not show the order within a step.
    for first in range(0, len(received), step):
        ours, theirs = (_sorted(rows[first : first + step]) for rows in (received, expected))
        full = len(ours) == len(theirs)
        if not (same(ours, theirs) if full else first + step >= len(received) and _among(ours, theirs)):
            raise ConformanceError(
                f"{what}: datapoints from {first} of the rest on are {shortened(ours)} instead of "
                f"{shortened(theirs)}. Does each host divide the same order, and are the batches directly "
                "above the shard?"
            )
    if not len(expected) - step < len(received) <= len(expected):
        raise ConformanceError(f"{what}: {len(received)} datapoints instead of {len(expected)}")


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: repr([np.asarray(value).tolist() for value in row]))


def _among(ours: list[Any], theirs: list[Any]) -> bool:
    return all(any(same(row, other) for other in theirs) for row in ours)
