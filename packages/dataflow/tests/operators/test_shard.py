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
    ProxyDataFlow,
    RepeatedData,
    ShardData,
    StateError,
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
def test_resharded_states_yield_the_remaining_datapoints(make, was, now, stop):
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
    start = len(seen) % now  # the next shard
    assert same(seen + taken_in_turn([*rest[start:], *rest[:start]]), whole)


@pytest.mark.parametrize("make", [addressable, stream])
@pytest.mark.parametrize("now", [1, 2, 3, 6])
def test_the_global_batch_continues_with_any_number_of_shards(make, now):
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
    with pytest.raises(NotAddressableError, match=r"datapoint 50 of .* was dropped without .* drops=True"):
        list(flow)


@given(size=st.integers(1, 40), was=st.sampled_from([1, 2, 3, 4]), now=st.sampled_from([1, 2, 3, 4, 6, 12]))
@pytest.mark.parametrize("make", [addressable, stream])
def test_the_end_of_an_epoch_is_the_end_on_any_number_of_hosts(make, size, was, now):
    def host(index, count):
        return seeded(
            BatchData(ShardData(make(size), index, count), 12 // count, remainder=True, use_list=True)
        )

    def members(flow):
        return [number for batch in flow for number in batch[0]]

    first = host(0, was)
    iterator = iter(first)
    batches = list(iterator)
    state = first.state_dict()
    state.update(epoch=0, index=len(batches))
    hosts = [host(index, now) for index in range(now)]
    for flow in hosts:
        flow.load_state_dict(state)
    assert [members(flow) for flow in hosts] == [[]] * now
    following = sorted(number for flow in hosts for number in members(flow))
    assert following == sorted(number for index in range(was) for number in members(host(index, was)))


def test_a_state_beyond_the_longest_shard_is_refused():
    flow = BatchData(ShardData(range(9), 3, 4), 1, remainder=True)
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 3})  # host 0 has three
    assert list(flow) == []
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 4})
    with pytest.raises(StateError, match=r"4 datapoints of this epoch were seen, and BatchData\(1\) has 3"):
        list(flow)


@pytest.mark.parametrize("dropped", range(8))
@pytest.mark.parametrize("start", range(3))
def test_shards_of_a_stream_agree_on_undeclared_drops(dropped, start):
    def host(index):
        numbers = DataFromGenerator(lambda: ([number] for number in range(13)))
        kept = MapData(numbers, lambda dp: None if dp == [dropped] else dp)
        return ShardData(kept, index, 3)

    passes = []
    for index in range(3):
        flow = host(index)
        given = list(islice(iter(flow), start))
        resumed = host(index)
        resumed.load_state_dict(flow.state_dict())
        passes.append(given + list(resumed))
    assert taken_in_turn(passes) == [[number] for number in range(13) if number != dropped]


def test_a_flow_over_a_shard_is_sharded():
    class Third(ProxyDataFlow):
        sharded = True

    whole = BatchData(DataFromList(range(12), shuffle=True), 2)
    assert not whole.sharded
    for divided in (ShardData(range(12), 0, 1), Third(whole)):
        assert divided.sharded
        assert RepeatedData(MapData(divided, str), 2).sharded
