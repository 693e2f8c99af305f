"""Batches, buckets and packs by length: complete, within their limits, the same number in each epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchByBudget,
    BucketData,
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiThreadRunner,
    NotAddressableError,
    PackData,
    ShardData,
    StateError,
)
from towerpack_dataflow.sources import _permutation
from towerpack_dataflow.testing import check_dataflow

LENGTHS = [int(number) for number in np.random.default_rng(0).integers(1, 30, 101)]

LENGTH_LISTS = st.lists(st.integers(0, 12), min_size=1, max_size=60)
BOTH = {
    "budget": lambda ds, lengths: BatchByBudget(ds, lengths, 64, window=16),
    "bucket": lambda ds, lengths: BucketData(ds, lengths, [4, 9], [8, 4, 2]),
    "pack": lambda ds, lengths: PackData(ds, lengths, 32),
}


def numbered(lengths):
    return DataFromList([[number] for number in range(len(lengths))], shuffle=False)


def members(batch):
    return batch[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
def test_conformance(kind):
    check_dataflow(BOTH[kind](numbered(LENGTHS), LENGTHS))
    check_dataflow(ShardData(BOTH[kind](numbered(LENGTHS), LENGTHS), 1, 3))
    check_dataflow(MultiThreadRunner(BOTH[kind](numbered(LENGTHS), LENGTHS), 1))


@pytest.mark.parametrize("kind", BOTH)
@given(lengths=LENGTH_LISTS)
@settings(max_examples=40)
def test_each_datapoint_comes_once_and_batches_differ_between_epochs(kind, lengths):
    flow = BOTH[kind](numbered(lengths), lengths)
    flow.seed(1)
    for _ in range(3):
        batches = list(flow)
        assert len(batches) == len(flow)
        assert sorted(number for batch in batches for number in members(batch)) == list(range(len(lengths)))
    assert [leaf.index for leaf in flow.trace(0, 2).sources()] == members(flow.datapoint(2, 0))


@pytest.mark.parametrize("kind", BOTH)
def test_orders_of_large_classes_are_computed_where_they_are_needed(kind, monkeypatch):
    monkeypatch.setattr(_permutation, "_TABLE_SIZE", 3)
    lengths = [3] * 40 + [7] * 3 + [9]
    flow = BOTH[kind](numbered(lengths), lengths)
    flow.seed(1)
    first, second = list(flow), list(flow)
    for batches in (first, second):
        assert sorted(number for batch in batches for number in members(batch)) == list(range(len(lengths)))
    assert first != second
    assert [flow.datapoint(0, index) for index in range(len(flow))] == first


def test_epochs_differ_and_unshuffled_ones_do_not():
    flow = BatchByBudget(numbered(LENGTHS), LENGTHS, 64, window=16)
    assert list(flow) != list(flow)
    assert {frozenset(members(batch)) for batch in flow} != {frozenset(members(batch)) for batch in flow}
    still = BatchByBudget(numbered(LENGTHS), LENGTHS, 64, window=16, shuffle=False)
    assert list(still) == list(still)


@pytest.mark.slow
@given(
    lengths=LENGTH_LISTS,
    budget=st.integers(12, 60),
    window=st.one_of(st.none(), st.integers(1, 70)),
    hosts=st.integers(1, 5),
)
def test_no_batch_exceeds_its_budget_and_hosts_have_equally_many(lengths, budget, window, hosts):
    fewest = len(BatchByBudget(numbered(lengths), lengths, budget, window))
    if -(-fewest // hosts) * hosts > len(lengths):
        with pytest.raises(ArgumentError, match=r"datapoints are too few for the next multiple"):
            BatchByBudget(numbered(lengths), lengths, budget, window, multiple_of=hosts)
        return
    flow = BatchByBudget(numbered(lengths), lengths, budget, window, multiple_of=hosts)
    batches = list(flow)
    longest = [max(lengths[number] for number in members(batch)) for batch in batches]
    padded = [len(members(batch)) * most for batch, most in zip(batches, longest)]
    assert all(tokens <= budget for tokens in padded)
    assert len({len(ShardData(flow, host, hosts)) for host in range(hosts)}) == 1
    if sum(padded):
        share = 1 - sum(lengths) / sum(padded)
        if window is None:
            assert flow.padding_share == pytest.approx(share)
        assert flow.padding_share >= share - 1e-9


@given(lengths=LENGTH_LISTS, capacity=st.integers(12, 60))
def test_no_pack_exceeds_its_capacity_and_the_padding_is_reported(lengths, capacity):
    flow = PackData(numbered(lengths), lengths, capacity)
    sums = [sum(lengths[number] for number in members(pack)) for pack in flow]
    assert max(sums) <= capacity
    assert flow.padding_share == pytest.approx(1 - sum(sums) / (len(sums) * capacity))
    assert len(flow) <= max(2 * sum(lengths) / capacity + 1, 1)  # any two packs hold more than one capacity


@given(lengths=LENGTH_LISTS, remainder=st.booleans())
def test_buckets_hold_lengths_between_their_boundaries(lengths, remainder):
    flow = BucketData(numbered(lengths), lengths, [4, 9], [8, 4, 2], remainder=remainder)
    for batch in flow:
        buckets = {int(np.searchsorted([4, 9], lengths[number], "right")) for number in members(batch)}
        (bucket,) = buckets
        size = [8, 4, 2][bucket]
        assert len(members(batch)) == size if not remainder else len(members(batch)) <= size


def test_collate_makes_the_datapoint():
    flow = PackData(
        numbered(LENGTHS),
        LENGTHS,
        32,
        collate=lambda made: [np.concatenate(list(made))],
        shuffle=False,
    )
    assert next(iter(flow))[0].dtype == np.int64
    with pytest.raises(ArgumentTypeError, match="collate is a function of a list of datapoints"):
        PackData(numbered(LENGTHS), LENGTHS, 32, collate=3)


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([1, 2], r"one entry for each datapoint; received 2 for the 3"),
        ([1, -2, 3], r"lengths are 0 or more; received -2 at 1"),
        ([1, 99, 3], r"datapoint 1 has length 99, more than"),
    ],
)
@pytest.mark.parametrize("kind", ["budget", "pack"])
def test_wrong_lengths_are_refused(kind, lengths, message):
    with pytest.raises(ArgumentError, match=message):
        BOTH[kind](DataFromList([1, 2, 3], shuffle=False), lengths)


@pytest.mark.parametrize("lengths", [[1.0, 2.0, 3.0], "abc", [[1], [2], [3]], [True, False, True]])
def test_lengths_are_integers(lengths):
    with pytest.raises(ArgumentTypeError, match="lengths is a list or array of integers"):
        PackData(DataFromList([1, 2, 3], shuffle=False), lengths, 8)


@pytest.mark.parametrize("kind", BOTH)
def test_flows_that_lengths_cannot_belong_to_are_refused(kind):
    with pytest.raises(ArgumentError, match=r"DataFromList below shuffles.*set shuffle=False there"):
        BOTH[kind](DataFromList([1, 2, 3]), [1, 1, 1])
    with pytest.raises(NotAddressableError, match="is a stream; use a flow"):
        BOTH[kind](DataFromGenerator(lambda: iter([1])), [1])


def test_other_wrong_arguments():
    with pytest.raises(ArgumentError, match=r"boundaries ascend; received \[9, 4\]"):
        BucketData([1], [1], [9, 4], 2)
    with pytest.raises(ArgumentError, match="one for each of the 3 buckets; received 2"):
        BucketData([1], [1], [4, 9], [2, 3])
    with pytest.raises(ArgumentError, match="max_tokens is an integer from 1 up"):
        BatchByBudget([1], [1], 0)


def test_a_dropped_datapoint_is_no_batch_that_is_too_small():
    dropping = MapData(numbered(LENGTHS), lambda dp: None if dp[0] == 3 else dp)
    with pytest.raises(NotAddressableError, match=r"datapoint 3 of .* was dropped, but PackData"):
        list(PackData(dropping, LENGTHS, 32))


def test_a_state_belongs_to_its_lengths():
    state = BatchByBudget(numbered(LENGTHS), LENGTHS, 64).state_dict()
    with pytest.raises(StateError, match="lengths of BatchByBudget was"):
        BatchByBudget(numbered(LENGTHS), LENGTHS[::-1], 64).load_state_dict(state)


def test_an_empty_flow_has_no_batches():
    for kind in BOTH:
        assert list(BOTH[kind](DataFromList([], shuffle=False), [])) == []


@pytest.mark.slow
def test_a_million_lengths():
    lengths = np.random.default_rng(0).integers(1, 512, 10**6)
    source = DataFromList(range(10**6), shuffle=False)
    first, second = (
        BatchByBudget(MapData(source, lambda n: [n]), lengths, 16384, 10_000, multiple_of=8) for _ in range(2)
    )
    first.seed(0)
    second.load_state_dict(first.state_at(len(first) // 2))
    assert next(iter(second)) == first.datapoint(0, len(first) // 2)
    assert first.padding_share < 0.05
