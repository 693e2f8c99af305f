"""Mixtures are exact after each datapoint, also along a schedule; skipping moves the rest up."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    EmptyFlowError,
    MapData,
    MixData,
    NotAddressableError,
    RepeatedData,
    ShardData,
    SkipData,
    StateError,
)
from towerpack_dataflow.testing import check_dataflow


def flows(count, size=7):
    return [DataFromList([[flow, number] for number in range(size)]) for flow in range(count)]


def noisy(dp, rng):
    return [*dp, rng.random()]


@pytest.mark.slow
def test_conformance():
    check_dataflow(MixData(flows(3), [0.5, 0.3, 0.2], size=25))
    check_dataflow(MixData(flows(2), {0: [1, 0], 9: [1, 2], 20: [0, 1]}))
    check_dataflow(RepeatedData(BatchData(MixData(flows(2), [1, 2]), 3), 2))
    source = DataFromList([[number] for number in range(20)])
    check_dataflow(SkipData(MapData(source, noisy, rng=True), [3, 4, 19, 25]))
    check_dataflow(ShardData(SkipData(source, range(15)), 1, 3))


@pytest.mark.slow
@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
def test_shares_are_right_after_each_datapoint(weights):
    order = [dp[0] for dp in MixData(flows(len(weights)), weights, size=3 * sum(weights))]
    total = sum(weights)
    for taken in range(1, len(order) + 1):
        for flow, weight in enumerate(weights):
            assert abs(order[:taken].count(flow) - taken * weight / total) < 1


@given(
    first=st.lists(st.sampled_from([0, 0.1, 0.25, 1 / 3, 2.5]), min_size=3, max_size=3).filter(any),
    change=st.integers(1, 60),
)
@settings(max_examples=25)
def test_each_phase_of_a_schedule_has_its_own_shares(first, change):
    flow = MixData(flows(3), {0: first, change: [0, 1, 3]}, size=100)
    order = [dp[0] for dp in flow]
    shares = [weight / sum(first) for weight in first]
    for number, share in enumerate(shares):
        assert abs(order[:change].count(number) - change * share) < 1 + 1e-9
    for number, share in enumerate([0, 0.25, 0.75]):
        assert abs(order[change:].count(number) - (100 - change) * share) < 1


def test_flows_continue_from_pass_to_pass_and_from_epoch_to_epoch():
    flow = MixData([DataFromList(list("abc"), shuffle=False), ["x"]], [1, 1], size=4)
    assert [list(flow), list(flow)] == [["a", "x", "b", "x"], ["c", "x", "a", "x"]]
    assert flow.trace(2, 1).origins[0].epoch == 1
    shuffled = MixData([DataFromList(range(30))], [1])
    shuffled.seed(0)
    assert sorted(shuffled) == list(range(30)) and list(shuffled) != list(range(30))


def test_the_same_flow_twice_has_two_places():
    source = DataFromList([[number] for number in range(9)])
    flow = MixData([source, source], [1, 1])
    flow.seed(2)
    order = [dp[0] for dp in flow]
    assert order[::2] != order[1::2] and sorted(order[::2]) == sorted(order[1::2]) == list(range(9))
    check_dataflow(MixData([source, source], [1, 1]))


def test_shares_that_are_no_short_fractions_are_close():
    weights = [0.3141592, 0.2718281, 0.1234567]
    order = [number for number, _ in MixData(flows(3), weights, size=5000)]
    for number, weight in enumerate(weights):
        assert abs(order.count(number) - 5000 * weight / sum(weights)) < 1.1


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, float("nan")], ["a", 1], 3, [1, 1, 1]])
def test_invalid_weights(weights):
    with pytest.raises(ArgumentError, match="weights are 2 numbers from 0 up, one for each flow"):
        MixData(flows(2), weights)


def test_flows_that_cannot_be_mixed():
    with pytest.raises(ArgumentError, match="begins at datapoint 0"):
        MixData(flows(2), {5: [1, 1]})
    with pytest.raises(ArgumentError, match="at least one flow"):
        MixData([], [])
    with pytest.raises(ArgumentTypeError, match="a list of flows; received DataFromList"):
        MixData(DataFromList([1]), [1])
    with pytest.raises(EmptyFlowError, match="flow 1 of MixData has a share, but no datapoints"):
        MixData([["a"], []], [1, 1])
    with pytest.raises(NotAddressableError, match=r"DataFromGenerator is a stream"):
        MixData([DataFromGenerator(lambda: iter([1]))], [1])
    dropping = MixData([MapData([1, 2], lambda dp: None)], [1])
    with pytest.raises(NotAddressableError, match=r"was dropped, but MixData\(1 flows\) requires it"):
        list(dropping)
    assert list(MixData([["a"], []], [1, 0])) == ["a"]


def test_a_state_belongs_to_its_weights():
    with pytest.raises(StateError, match="weights of MixData was"):
        MixData(flows(2), [1, 2]).load_state_dict(MixData(flows(2), [2, 1]).state_dict())


@pytest.mark.slow
@given(positions=st.sets(st.integers(0, 60)), start=st.integers(0, 30))
def test_a_state_from_before_the_skipped_datapoints_continues_without_them(positions, start):
    def make():
        return MapData(DataFromList([[number] for number in range(11)]), noisy, rng=True)

    plain = make()
    plain.seed(4)
    whole = [dp for _ in range(9) for dp in plain]
    positions = {position for position in positions if position >= start}
    skipping = SkipData(make(), positions)
    skipping.load_state_dict(plain.state_at(start))
    rest = [dp for _ in range(3) for dp in skipping]
    expected = [dp for number, dp in enumerate(whole) if number >= start and number not in positions]
    assert rest == expected[: len(rest)]


def test_skipping_one_batch_of_one_epoch():
    source = DataFromList([[number] for number in range(8)], shuffle=False)
    flow = SkipData(BatchData(source, 2), [5])
    taken = [batch[0].tolist() for _ in range(3) for batch in islice(flow, 4)]
    assert taken == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [0, 1],
        [4, 5],
        [6, 7],
        [0, 1],
        [2, 3],
        *[[4, 5], [6, 7], [0, 1]],
    ]
    assert flow.fixed_batch_size == 2
    assert flow.trace(1, 1).origins[0].index == 2


def test_invalid_positions():
    with pytest.raises(ArgumentError, match="positions are counted from 0; received -1"):
        SkipData([1], [-1])
    with pytest.raises(ArgumentTypeError, match=r"a position is an integer; received 1\.5"):
        SkipData([1], [1.5])
    with pytest.raises(ArgumentTypeError, match="positions is an iterable of integers; received 3"):
        SkipData([1], 3)
    with pytest.raises(ArgumentError, match="SkipData skips datapoints, but DataFromList has none"):
        SkipData([], [])
    with pytest.raises(NotAddressableError, match="is a stream"):
        SkipData(DataFromGenerator(lambda: iter([1])), [0])
