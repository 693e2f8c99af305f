"""Schedules are functions of progress and of nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks.hyperparam import cosine, exponential, one_cycle, over, polynomial, warm_up

SCHEDULES = {
    "cosine": (cosine(0.5, 0.1), 0.5, 0.1),
    "line": (polynomial(0.5, 0.1), 0.5, 0.1),
    "square": (polynomial(0.1, 0.5, power=2), 0.1, 0.5),
    "exponential": (exponential(0.5, 0.1), 0.5, 0.1),
    "warm": (warm_up(cosine(0.5, 0.1), 0.25, start=0.2), 0.2, 0.1),
    "cold": (warm_up(cosine(0.5, 0.1), 0.0, start=0.2), 0.5, 0.1),
    "cycle": (one_cycle(0.5, start_divisor=5, end_divisor=2), 0.1, 0.05),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_ends(name):
    schedule, start, end = SCHEDULES[name]
    assert schedule(0.0) == pytest.approx(start)
    assert schedule(1.0) == pytest.approx(end)
    assert schedule(-3.0) == schedule(0.0) and schedule(7.0) == schedule(1.0)


@pytest.mark.parametrize("name", SCHEDULES)
@given(progress=st.floats(0, 1))
def test_values_are_within_and_without_jumps(name, progress):
    schedule = SCHEDULES[name][0]
    assert 0.05 - 1e-9 <= schedule(progress) <= 0.5 + 1e-9
    assert abs(schedule(progress) - schedule(progress + 1e-6)) < 1e-4


@pytest.mark.parametrize("name", ["cosine", "line", "exponential"])
@given(one=st.floats(0, 1), other=st.floats(0, 1))
def test_those_that_fall_never_rise(name, one, other):
    schedule = SCHEDULES[name][0]
    assert schedule(min(one, other)) >= schedule(max(one, other)) - 1e-12


def test_the_peak_of_a_cycle():
    cycle = one_cycle(2.0, warm_up_fraction=0.4)
    assert cycle(0.4) == pytest.approx(2.0) and cycle(0.2) == pytest.approx((2.0 + 2.0 / 25) / 2)


def test_values_between():
    warm = warm_up(lambda progress: 5 + progress, 0.5, start=1.0)  # one that looks at what it is given
    assert [warm(progress) for progress in (0, 0.125, 0.25, 0.5, 0.75, 1)] == [1.0, 2.0, 3.0, 5.0, 5.5, 6.0]
    cycle = one_cycle(2.0, warm_up_fraction=0.4)
    assert cycle(0.7) == pytest.approx((2.0 + 2.0 / 25 / 1e4) / 2, rel=1e-12)
    assert cycle(0.55) == pytest.approx(2.0 * 0.8535533905932737, rel=1e-4)


def test_defaults():
    assert cosine(1.0)(1.0) == polynomial(1.0)(1.0) == 0.0
    assert polynomial(1.0)(0.25) == 0.75
    assert warm_up(cosine(1.0), 0)(0.0) == 1.0 and warm_up(cosine(1.0), 0.5)(0.0) == 0.0
    cycle = one_cycle(1.0)
    assert cycle(0.0) == pytest.approx(1 / 25, rel=1e-12) and cycle(0.3) == 1.0
    assert cycle(1.0) == pytest.approx(1 / 25 / 1e4, rel=1e-12)


@pytest.mark.parametrize("number", [0, -1, float("nan")])
def test_numbers_that_are_not_above_zero(number):
    makers = [
        lambda: polynomial(1, power=number),
        lambda: exponential(1, number),
        lambda: exponential(number, 1),
        lambda: over(cosine(1), number),
    ]
    for make in makers:
        with pytest.raises(
            ValueError, match=r"expected (a positive number|a number above 0|numbers above 0)"
        ):
            make()


@pytest.mark.parametrize("fraction", [-0.5, 1, 1.0, 1.5, float("nan")])
def test_fractions_out_of_range(fraction):
    with pytest.raises(ValueError, match="expected a number with 0 <= fraction < 1"):
        warm_up(cosine(1), fraction)
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        one_cycle(1, warm_up_fraction=fraction)


def test_a_cycle_rises_first():
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        one_cycle(1, warm_up_fraction=0)


def test_over_goes_through_it_once():
    func = over(polynomial(1.0), total=4)
    assert [func(finished, None) for finished in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert over(polynomial(1.0), total=1)(1, None) == 0.0
