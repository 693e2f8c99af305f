"""Online statistics equal those of all values at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from towerpack_dataflow import ArgumentError, OnlineMoments, StatCounter

VALUES = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 20), st.integers(0, 3)), elements=st.floats(-1e6, 1e6)
)


@given(VALUES)
def test_moments_are_those_of_all_arrays(values):
    moments = OnlineMoments()
    for row in values:
        moments.feed(row)
    np.testing.assert_allclose(moments.mean, values.mean(0), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(moments.std, values.std(0), rtol=1e-6, atol=1e-3)
    assert moments.count == len(values)


def test_a_mean_far_from_zero_costs_no_precision():
    moments = OnlineMoments()
    for value in (1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16):
        moments.feed(value)
    assert moments.variance == 22.5


def test_numbers():
    counter = StatCounter()
    assert counter.sum == 0 and counter.count == 0
    for number in (np.float32(2), 5, np.array(-1)):
        counter.feed(number)
    assert (counter.average, counter.min, counter.max, counter.sum, counter.samples) == (
        2,
        -1,
        5,
        6,
        [2, 5, -1],
    )
    counter.reset()
    with pytest.raises(ArgumentError, match="feed one first"):
        _ = counter.average


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (lambda: StatCounter().feed([1, 2]), r"one number; received shape \(2,\)"),
        (lambda: StatCounter().feed("1"), "takes real numbers; received '1'"),
        (lambda: OnlineMoments().feed([None]), "takes real numbers"),
        (lambda: OnlineMoments().feed(np.ma.masked_equal([1, 2], 2)), "takes no masked values"),
        (lambda: OnlineMoments().mean, "feed one first"),
        (lambda: StatCounter().max, "feed one first"),
    ],
)
def test_wrong_values_are_refused(feed, message):
    with pytest.raises(ArgumentError, match=message):
        feed()


def test_another_shape_is_refused():
    moments = OnlineMoments()
    moments.feed([1, 2])
    with pytest.raises(ArgumentError, match=r"of one shape, \(2,\); received \(3,\)"):
        moments.feed([1, 2, 3])
    assert moments.count == 1
