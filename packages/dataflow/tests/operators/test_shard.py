import json
from itertools import chain, islice, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    MapData,
    NotAddressableError,
    PrintData,
    RepeatedData,
    ShardData,
    reshard,
)
from towerpack_dataflow.testing import check_dataflow, same

MISSING = object()


def addressable(size=23):
    return RepeatedData(MapData(DataFromList([[i] for i in range(size)]), noisy, rng=True), 2)


def stream(size=23):
    return MapData(MapData(DataFromList([[i] for i in range(size)]), noisy, rng=True), keep_some, drops=True)


def noisy(dp, rng):
    return [*dp, rng.random()]


def keep_some(dp):
    return None if dp[0] % 5 == 0 else dp


def seeded(flow, seed=3):
    flow.seed(seed)
    return flow


def taken_in_turn(shards):
    return [dp for dp in chain.from_iterable(zip_longest(*shards, fillvalue=MISSING)) if dp is not MISSING]


@pytest.mark.parametrize("make", [addressable, stream])
@pytest.mark.parametrize("index", range(3))
def test_conformance(make, index):
    check_dataflow(ShardData(make(), index, 3))
    check_dataflow(BatchData(ShardData(make(), index, 3), 4))
    check_dataflow(PrintData(ShardData(make(), index, 3)))


@pytest.mark.parametrize("make", [addressable, stream])
@given(count=st.integers(1, 60), seed=st.integers(0, 100))
def test_taken_in_turn_the_shards_are_the_whole(make, count, seed):
    whole = seeded(make(), seed)
    shards = [seeded(ShardData(make(), index, count), seed) for index in range(count)]
    for _ in range(2):
        assert same(taken_in_turn(list(shard) for shard in shards), list(whole))


def test_without_a_seed_all_hosts_cut_the_same_order():
    one, two = (list(MapData(ShardData(DataFromList(range(100)), index, 2), abs)) for index in (0, 1))
    assert sorted(one + two) == list(range(100))
    assert taken_in_turn([one, two]) == list(seeded(MapData(DataFromList(range(100)), abs), 0))


def test_a_common_seed_below_and_another_one_above():
    def host(number):
        shard = ShardData(DataFromList([[i] for i in range(50)]), number, 2)
        flow = MapData(shard, noisy, rng=True)
        flow.seed(number)
        shard.seed(9)
        return list(flow)

    one, two = host(0), host(1)
    assert sorted(i for i, _ in one + two) == list(range(50))
    assert not {noise for _, noise in one} & {noise for _, noise in two}


@pytest.mark.parametrize("make", [addressable, stream])
@given(was=st.integers(1, 8), now=st.integers(1, 8), stop=st.integers(0, 4))
def test_resharded_states_give_what_the_old_shards_had_not(make, was, now, stop):
    whole = list(seeded(make()))
    stop = min(stop, len(whole) // was)
    old = [seeded(ShardData(make(), index, was)) for index in range(was)]
    iterators = [islice(iter(shard), stop) for shard in old]
    seen = taken_in_turn(list(iterator) for iterator in iterators)
    rest = []
    for index in range(now):
        shard = ShardData(make(), index, now)
        shard.load_state_dict(reshard(json.loads(json.dumps(old[-1].state_dict())), was, index, now))
        rest.append(list(shard))
    assert len(seen) + sum(map(len, rest)) == len(whole)
    start = len(seen) % now  # the shard whose turn it is
    assert same(seen + taken_in_turn([*rest[start:], *rest[:start]]), whole)


@pytest.mark.parametrize("make", [addressable, stream])
@pytest.mark.parametrize("now", [1, 2, 3, 6])
def test_the_global_batch_goes_on_with_any_number_of_shards(make, now):
    def host(index, count):
        return seeded(BatchData(ShardData(make(60), index, count), 12 // count, use_list=True))

    def global_batch(batches):
        return sorted(i for batch in batches for i in batch[0])

    old = [iter(host(index, 4)) for index in range(4)]
    first = host(0, 4)
    expected = [global_batch(batches) for batches in zip(*old)]
    list(islice(iter(first), 2))
    hosts = [host(index, now) for index in range(now)]
    for flow in hosts:
        flow.load_state_dict(first.state_dict())
    assert [global_batch(batches) for batches in zip(*hosts)] == expected[2:]


def test_only_the_shard_is_made():
    made = []
    flow = ShardData(MapData(range(100), lambda dp: made.append(dp) or dp), 3, 10)
    assert list(flow) == made == list(range(3, 100, 10))
    assert len(flow) == 10
    assert [len(ShardData(range(3), index, 5)) for index in range(5)] == [1, 1, 1, 0, 0]


def test_errors():
    with pytest.raises(ArgumentError, match="index=2 of count=2 shards: they are numbered 0 to 1"):
        ShardData([[1]], 2, 2)
    with pytest.raises(ArgumentError, match="count is an integer from 1 up; received 0"):
        ShardData([[1]], 0, 0)
    with pytest.raises(ArgumentError, match="index is an integer from 0 up; received -1"):
        reshard({"index": 3}, 2, -1, 3)
    with pytest.raises(TypeError, match="has no length"):
        len(ShardData(DataFromGenerator(lambda: iter([[1]])), 0, 2))
    flow = ShardData(MapData(range(100), lambda dp: None if dp == 50 else dp), 0, 2)
    with pytest.raises(NotAddressableError, match=r"datapoint 50 of .* was dropped, .* drops=True"):
        list(flow)
