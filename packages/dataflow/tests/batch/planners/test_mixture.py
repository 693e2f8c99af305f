"""Mixtures alone: counts, shares, order of deadlines, and integer weights."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError
from towerpack_dataflow.batch.planners._mixture import Mixture

SHARES = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


def order_by_deadlines(shares, length):
    """Goes through the datapoints one by one, and takes the open flow with the earliest deadline."""
    total, given, order = sum(shares), [0] * len(shares), []
    for moment in range(length):
        deadlines = []
        for flow, share in enumerate(shares):
            if share and given[flow] * total // share <= moment:
                deadlines.append((ceil(Fraction((given[flow] + 1) * total, share)), flow))
        flow = min(deadlines)[1]
        given[flow] += 1
        order.append(flow)
    return order


@given(first=SHARES, second=SHARES, third=SHARES, starts=st.sets(st.integers(1, 60), min_size=2, max_size=2))
def test_each_phase_has_the_order_of_deadlines_and_counts_continue(first, second, third, starts):
    bounds = [0, *sorted(starts), 100]
    schedule = dict(zip(bounds, [first, second, third]))
    mixture = Mixture(schedule, 3)
    expected = [
        flow
        for shares, start, stop in zip(schedule.values(), bounds, bounds[1:])
        for flow in order_by_deadlines(shares, stop - start)
    ]
    assert [mixture.at(n) for n in range(100)] == [
        (flow, expected[:n].count(flow)) for n, flow in enumerate(expected)
    ]
    assert mixture.used() == [flow for flow in range(3) if first[flow] or second[flow] or third[flow]]


@pytest.mark.parametrize(
    "shares", [[7, 3, 2], [5, 5, 4, 1], [11, 7, 5, 3], [13, 1, 1], [1] * 9, [17, 12, 8, 3]]
)
def test_the_order_of_deadlines_repeats(shares):
    mixture = Mixture(shares, len(shares))
    order = order_by_deadlines(shares, 3 * sum(shares))
    assert [mixture.at(n)[0] for n in range(len(order))] == order
    assert [mixture.at(n)[1] for n in range(len(order))] == [order[:n].count(f) for n, f in enumerate(order)]


@given(counts=st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any))
def test_short_fractions_are_kept_exactly(counts):
    (shares,) = Mixture([count / 64 for count in counts], len(counts)).shares
    assert [Fraction(share, sum(shares)) for share in shares] == [
        Fraction(count, sum(counts)) for count in counts
    ]


@pytest.mark.parametrize(
    "weights, shares",
    [
        ([9_999, 1], [9_999, 1]),
        ([10_000, 1], [9_999, 1]),  # the denominator 10,001 is too large, and the nearest sum up to 1
        ([0.5, 0.3, 0.2], [5, 3, 2]),
    ],
)
def test_denominators_up_to_ten_thousand(weights, shares):
    assert Mixture(weights, len(weights)).shares == [shares]


@pytest.mark.parametrize(
    "weights",
    [
        [0.3141592, 0.2718281, 0.1234567],
        [3.141592, 2.718281, 1.234567, 1.732050],
        [1 / 997, 996 / 997, 1 / 991, 990 / 991],  # short fractions with the sum 1, but a long period
        [0.39999, 0.499998, 0.100012],  # near 2/5, 1/2 and 833/8329, with a sum above 1
        [1_000_045, 6_000_027, 1_999_928],  # near 1/9, 2/3 and 2221/9995, with a sum below 1
    ],
)
def test_other_weights_are_rounded_by_largest_remainder(weights):
    (shares,) = Mixture(weights, len(weights)).shares
    exact = [weight / sum(weights) * 100_000 for weight in weights]
    remainders = [number - int(number) for number in exact]
    up = sorted(remainders, reverse=True)[: round(sum(remainders))]
    assert 0 < len(up) < len(weights)
    assert shares == [int(number) + (rest in up) for number, rest in zip(exact, remainders)]
    assert sum(shares) == 100_000


def test_three_hundred_flows():
    assert Mixture([1] * 300, 300).shares == [[1] * 300]


@pytest.mark.parametrize("weights", [[1, -0.5], [1, float("inf")], [1, float("nan")], [0, 0]])
def test_numbers_that_are_no_weights(weights):
    with pytest.raises(ArgumentError, match=r"^weights are 2 numbers from 0 up, one for each flow"):
        Mixture(weights, 2)


def test_phases_start_from_zero_up():
    with pytest.raises(ArgumentError, match=r"the start of a phase is an integer from 0 up"):
        Mixture({-1: [1], 0: [1]}, 1)
    with pytest.raises(ArgumentError, match=r"begins at datapoint 0; received {}"):
        Mixture({}, 1)


def test_phases_may_be_given_in_any_order():
    assert repr(Mixture({5: [1, 2], 0: [2, 2]}, 2)) == "{0: [1, 1], 5: [1, 2]}"
