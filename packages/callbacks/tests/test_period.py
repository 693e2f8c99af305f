"""Periods, and what is due when."""

import pytest

from towerpack_callbacks import Every, PeriodError
from towerpack_callbacks._period import EVERY_EPOCH, EVERY_STEP, Schedule


@pytest.mark.parametrize("arguments", [{}, {"steps": 1, "epochs": 1}])
def test_exactly_one_unit(arguments):
    with pytest.raises(PeriodError, match=r"exactly one of steps and epochs.*Write Every\(steps=100\)"):
        Every(**arguments)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3"])
def test_a_positive_whole_number(number):
    with pytest.raises(PeriodError, match=r"whole number of at least 1"):
        Every(steps=number)


@pytest.mark.parametrize(
    ("every", "due"),
    [
        (Every(steps=1), [1, 2, 3, 4, 5, 6]),
        (Every(steps=2), [2, 4, 6]),
        (Every(steps=4), [4]),
        (Every(epochs=1), [3, 6]),
        (Every(epochs=2), [6]),
    ],
    ids=str,
)
def test_due_steps(every, due):
    steps = [s for s in range(1, 7) if every.due(s, epoch=(s - 1) // 3 + 1, last_step=s % 3 == 0)]
    assert steps == due


@pytest.mark.parametrize("start", [0, 1, 5, 7, 9])
def test_schedule_agrees_with_asking_each_period_wherever_it_starts(start):
    items = [
        ("a", EVERY_STEP),
        ("b", Every(steps=5)),
        ("c", EVERY_EPOCH),
        ("d", Every(epochs=3)),
        ("e", Every(steps=2)),
    ]
    schedule = Schedule(items)
    for step in range(start + 1, 60):
        epoch, last = (step - 1) // 7 + 1, step % 7 == 0
        expected = tuple(name for name, every in items if every.due(step, epoch, last))
        assert schedule.due(step, epoch, last) == expected


def test_equal_sets_are_the_same_object():
    schedule = Schedule([("a", EVERY_STEP), ("b", Every(steps=2))])
    due = [schedule.due(step, 1, False) for step in range(1, 7)]
    assert due[0] is due[2] is schedule.always
    assert due[1] is due[3]


def test_due_is_always_when_nothing_is_periodic():
    schedule = Schedule([("a", EVERY_STEP)])
    assert all(schedule.due(step, 1, step % 3 == 0) is schedule.always for step in range(1, 9))
