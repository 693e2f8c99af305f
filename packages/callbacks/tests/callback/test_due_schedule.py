"""Due periods at a step, for one period or for many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import Every
from towerpack_callbacks.callback import EVERY_EPOCH, EVERY_STEP, DueSchedule, Ticker


class Clock:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self):
        return self.now


def test_seconds_count_from_the_last_due_time():
    clock = Clock()
    ticker = Ticker(Every(seconds=10), clock)
    due = []
    for step, clock.now in enumerate([105.0, 109.9, 110.0, 119.0, 125.0, 134.0, 136.0], 1):
        answer = ticker.due(step, 1, False)
        assert ticker.due(step, 1, False) == answer  # asked twice at one step
        due.append(answer)
    assert due == [False, False, True, False, True, False, True]


def test_a_step_is_known_by_its_number():
    clock = Clock()
    ticker = Ticker(Every(seconds=10), clock)
    clock.now = 110.0
    assert ticker.due(1000, 1, False)
    assert ticker.due(int("1000"), 1, False)  # another object


def test_zero_env_steps_are_not_due():
    assert not Ticker(Every(env_steps=1)).due(1, 1, False)
    schedule = DueSchedule([("a", Every(env_steps=1))])
    assert [schedule.due(step, 1, False) for step in (1, 2)] == [(), ()]


@pytest.mark.parametrize("start", [0, 1, 5, 7, 9])
def test_schedule_agrees_with_asking_each_period_wherever_it_starts(start):
    items = [
        ("a", EVERY_STEP),
        ("b", Every(steps=5)),
        ("c", EVERY_EPOCH),
        ("d", Every(epochs=3)),
        ("e", Every(steps=2)),
    ]
    schedule = DueSchedule(items)
    for step in range(start + 1, 60):
        epoch, last = (step - 1) // 7 + 1, step % 7 == 0
        expected = tuple(name for name, every in items if every.due(step, epoch, last))
        assert schedule.due(step, epoch, last) == expected


@given(
    st.lists(
        st.sampled_from([EVERY_STEP, EVERY_EPOCH, *(Every(steps=k) for k in (2, 3, 7, 20))]), max_size=4
    ),
    st.integers(0, 50),
    st.integers(1, 9),
)
def test_nothing_is_due_in_unobserved_steps(periods, start, steps_per_epoch):
    schedule = DueSchedule(list(enumerate(periods)))
    assert schedule.unobserved_steps(start) == 0  # unknown before the first answer
    step = start
    while step < start + 60:
        step += 1
        schedule.due(step, 1 + step // steps_per_epoch, step % steps_per_epoch == 0)
        idle = min(schedule.unobserved_steps(step), 60)
        for skipped in range(step + 1, int(step + idle) + 1):
            due = {every for every in periods if every.due(skipped, 1, last_step=False)}
            assert due <= {EVERY_STEP}
        step += int(idle)


def test_no_step_is_idle_once_a_time_has_come():
    clock = Clock()
    schedule = DueSchedule([("a", Every(seconds=10))], clock)
    clock.now = 101.0
    schedule.due(1, 1, False)
    assert schedule.unobserved_steps(1) == float("inf")
    clock.now = 111.0
    assert schedule.unobserved_steps(1) == 0
    schedule.due(2, 1, False)
    assert schedule.unobserved_steps(2) == float("inf")


@given(st.integers(1, 30), st.integers(0, 50), st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_a_loop_that_makes_several_steps_passes_over_no_multiple(period, start, jumps):
    schedule = DueSchedule([("a", Every(steps=period)), ("b", Every(steps=period + 1))])
    schedule.start(start)
    step = start
    for jump in jumps:
        passed = range(step + 1, step + jump + 1)
        step += jump
        expected = tuple(
            name for name, k in (("a", period), ("b", period + 1)) if any(each % k == 0 for each in passed)
        )
        assert schedule.due(step, 1, False) == expected


def test_equal_sets_are_the_same_object():
    schedule = DueSchedule([("a", EVERY_STEP), ("b", Every(steps=2))])
    due = [schedule.due(step, 1, False) for step in range(1, 7)]
    assert due[0] is due[2] is schedule.always
    assert due[1] is due[3]


def test_due_is_always_when_nothing_is_periodic():
    schedule = DueSchedule([("a", EVERY_STEP)])
    assert all(schedule.due(step, 1, step % 3 == 0) is schedule.always for step in range(1, 9))


def test_a_schedule_with_seconds():
    clock = Clock()
    schedule = DueSchedule([("a", EVERY_STEP), ("b", Every(seconds=10)), ("c", Every(steps=3))], clock)
    seen = []
    for step, clock.now in enumerate([101.0, 110.0, 111.0, 119.0, 120.0, 121.0], 1):
        seen.append(schedule.due(step, 1, False))
    always, timed, counted = ("a",), ("a", "b"), ("a", "c")
    assert seen == [always, timed, counted, always, timed, counted]
    assert seen[0] is seen[3] and seen[1] is seen[4]


def test_seconds_begin_with_the_training():
    clock = Clock()
    schedule = DueSchedule([("a", Every(seconds=10))], clock)
    clock.now = 150.0
    schedule.start(0)
    assert schedule.due(1, 1, False) == ()
    clock.now = 160.0
    assert schedule.due(2, 1, False) == ("a",)


@given(st.lists(st.sampled_from([1, 2, 3, 7, 20]), min_size=1, max_size=4), st.integers(1, 50))
def test_every_step_before_the_next_period_is_unobserved(periods, step):
    schedule = DueSchedule([(period, Every(steps=period)) for period in periods])
    schedule.due(step, 1, False)
    following = [period - step % period for period in periods if period > 1]
    assert schedule.unobserved_steps(step) == min(following, default=float("inf")) - 1


def test_epochs_without_other_periods():
    schedule = DueSchedule([("a", EVERY_EPOCH), ("b", Every(epochs=2))])
    due = [schedule.due(step, (step + 1) // 2, step % 2 == 0) for step in range(1, 9)]
    assert due == [(), ("a",), (), ("a", "b")] * 2


def test_a_time_has_come_at_its_very_moment():
    clock = Clock()
    schedule = DueSchedule([("a", Every(seconds=10))], clock)
    assert schedule.due(1, 1, False) == ()
    clock.now = 110.0
    assert schedule.unobserved_steps(1) == 0
    assert schedule.due(2, 1, False) == ("a",)
