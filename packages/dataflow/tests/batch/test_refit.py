"""A state fits other numbers of hosts and batch sizes: the rest of the epoch comes once, in order."""

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiThreadRunner,
    ShardData,
    StateError,
    refit,
)
from towerpack_dataflow.flow._flow_state import position_of
from towerpack_dataflow.testing import ConformanceError, check_elastic


def batched(index, count, size, length=41, remainder=True):
    return BatchData(ShardData(DataFromList([[n] for n in range(length)]), index, count), size, remainder)


def numbers(flow):
    return [batch[0].tolist() for batch in flow]


FLOWS = {
    "list": batched,
    "arrays": lambda i, n, size: BatchData(ShardData(DataFromArrays([np.arange(41)]), i, n), size, True),
    "stream": lambda i, n, size: BatchData(
        ShardData(DataFromGenerator(lambda: ([n] for n in range(41))), i, n), size, True
    ),
    "maps": lambda i, n, size: MapData(
        BatchData(MapData(ShardData(DataFromList([[n] for n in range(41)]), i, n), list), size, True), list
    ),
    "dropped rest": lambda i, n, size: batched(i, n, size, length=61, remainder=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_check_elastic(name):
    check_elastic(FLOWS[name])


@pytest.mark.slow
def test_check_elastic_with_workers():
    def threads(index, count, size):
        return MultiThreadRunner(batched(index, count, size), 1)

    def map_and_batch(index, count, size):
        shard = ShardData(DataFromGenerator(lambda: ([n] for n in range(41))), index, count)
        return MultiProcessMapAndBatchData(shard, 0, list, size, remainder=True)

    for make in (threads, map_and_batch):
        check_elastic(make, hosts=(2, 3), sizes=(2, 3))


@pytest.mark.slow
def test_flows_that_are_not_elastic_are_found():
    def apart(index, count, size):
        own = DataFromList([[(n + index) % 41] for n in range(41)], shuffle=False)
        return BatchData(ShardData(own, index, count), size, True)

    with pytest.raises(ConformanceError, match="after 1 hosts with batches of 1, 2 with"):
        check_elastic(apart)


@given(
    length=st.integers(1, 90),
    was=st.tuples(st.integers(1, 6), st.integers(1, 5)),
    now=st.tuples(st.integers(1, 6), st.integers(1, 5)),
    stop=st.integers(0, 20),
)
@settings(max_examples=60)
def test_nothing_twice_and_nothing_left_out(length, was, now, stop):
    first = batched(0, *was, length)
    first.seed(1)
    taken = len(list(islice(first, stop)))
    state = json.loads(json.dumps(first.state_dict()))
    order = [n for batch in numbers(_seeded(batched(0, 1, 1, length))) for n in batch]
    rest = order[min(taken * was[0] * was[1], length) :]
    if state["epoch"] or taken < stop:
        return  # the epoch was over
    hosts = [batched(host, *now, length) for host in range(now[0])]
    for host in hosts:
        host.load_state_dict(refit(host, state))
    given = [numbers(host) for host in hosts]
    assert sorted(n for host in given for batch in host for n in batch) == sorted(rest)
    if rest:
        step = [n for host in given if host for n in host[0]]
        assert sorted(step) == sorted(rest[: now[0] * now[1]])
    for host in hosts:  # the epoch after it is whole
        assert len(numbers(host)) == len(host)


def _seeded(flow):
    flow.seed(1)
    return flow


@pytest.mark.slow
def test_4096_hosts():
    source = DataFromList(range(20_011))

    def host(index, count, size):
        return BatchData(MapData(ShardData(source, index, count), lambda n: [n]), size, remainder=True)

    state = _seeded(host(0, 512, 3)).state_at(5)
    shares = []
    for index in range(4096):
        flow = host(index, 4096, 2)
        flow.load_state_dict(refit(flow, state))
        batches = range(flow.state_dict()["index"], len(flow))
        shares.append([leaf.index for batch in batches for leaf in _rest_of(flow, batch)])
    assert sorted(n for share in shares for n in share) == list(range(5 * 3 * 512, 20_011))
    assert max(map(len, shares)) - min(map(len, shares)) == 1


def _rest_of(flow, batch):
    """Traces one batch of a pass resumed from a state."""
    return flow.trace(batch, position_of(flow).epoch).sources()


def test_the_same_shape_needs_no_mark_and_changes_nothing():
    flow = _seeded(batched(0, 2, 3))
    list(islice(flow, 4))
    state = flow.state_dict()
    assert refit(flow, state) == state
    other = batched(0, 3, 2)
    assert refit(other, state) == state


def test_states_and_flows_that_do_not_fit():
    state = batched(0, 2, 3).state_dict()
    with pytest.raises(StateError, match=r"with its entry 'flow'; received \{'seed'"):
        refit(batched(0, 1, 1), {"seed": 0, "epoch": 0, "index": 0})
    with pytest.raises(StateError, match="cannot be refitted: it is not a BatchData"):
        refit(FixedSizeData(batched(0, 1, 1), 3), state)
    with pytest.raises(StateError, match="has no BatchData at '0'"):
        refit(MapData(batched(0, 1, 1), list), state)
    between = BatchData(FixedSizeData(ShardData(DataFromList([[n] for n in range(41)]), 0, 3), 20), 2)
    with pytest.raises(StateError, match="lies between the batches and ShardData"):
        refit(between, state)
    longer = batched(0, 3, 2, length=50)
    with pytest.raises(StateError, match="length of DataFromList was 41 and is 50"):
        longer.load_state_dict(refit(longer, state))
