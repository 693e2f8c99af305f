"""Periods, and what is due when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import Every, PeriodError
from towerpack_callbacks.callback import EVERY_EPOCH, EVERY_STEP, DueSchedule, Ticker, as_every


class Clock:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("arguments", [{}, {"steps": 1, "epochs": 1}, {"steps": 1, "seconds": 1}])
def test_exactly_one_unit(arguments):
    with pytest.raises(
        PeriodError, match=r"exactly one of steps and epochs and seconds.*Write Every\(steps=100\)"
    ):
        Every(**arguments)


@pytest.mark.parametrize("number", [0, -1, True, "3", float("nan"), float("inf")])
def test_a_positive_number_of_seconds(number):
    with pytest.raises(PeriodError, match="expected a number above 0"):
        Every(seconds=number)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("100 steps", Every(steps=100)),
        ("1step", Every(steps=1)),
        ("2 epochs", Every(epochs=2)),
        ("2ep", Every(epochs=2)),
        ("30 sec", Every(seconds=30)),
        (" 10min ", Every(seconds=600)),
        ("2h", Every(seconds=7200)),
        ("500 env_steps", Every(env_steps=500)),
        ("1env_step", Every(env_steps=1)),
        ("3 step", Every(steps=3)),
        ("3 epoch", Every(epochs=3)),
        ("3 second", Every(seconds=3)),
        ("3 seconds", Every(seconds=3)),
        ("3 minute", Every(seconds=180)),
        ("3 minutes", Every(seconds=180)),
        ("3 hour", Every(seconds=10800)),
        ("3 hours", Every(seconds=10800)),
    ],
)
def test_periods_as_strings(text, period):
    assert Every.parse(text) == as_every(text) == as_every(period) == period


@pytest.mark.parametrize("text", ["100", "steps", "1.5 h", "-1 steps", "3 days", "", None, 7])
def test_what_is_no_period(text):
    with pytest.raises(PeriodError, match=r'is not understood. Write "100 steps", "2 epochs"'):
        as_every(text)


def test_s_might_be_steps_or_seconds():
    with pytest.raises(PeriodError, match=r"'100s' is not understood.*might be steps or seconds"):
        Every.parse("100s")


@pytest.mark.parametrize(
    ("every", "text"),
    [
        (Every(steps=1), "every step"),
        (Every(epochs=2), "every 2 epochs"),
        (Every(seconds=600), "every 600 seconds"),
        (Every(env_steps=500), "every 500 env_steps"),
    ],
)
def test_periods_in_words(every, text):
    assert str(every) == text


def test_seconds_need_a_memory():
    with pytest.raises(PeriodError, match="Use a Ticker of it"):
        Every(seconds=1).due(1, 1, False)


def test_seconds_count_from_when_it_last_was_due():
    clock = Clock()
    ticker = Ticker(Every(seconds=10), clock)
    due = []
    for step, clock.now in enumerate([105.0, 109.9, 110.0, 119.0, 125.0, 134.0, 136.0], 1):
        answer = ticker.due(step, 1, False)
        assert ticker.due(step, 1, False) == answer  # asked twice at one step
        due.append(answer)
    assert due == [False, False, True, False, True, False, True]


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3"])
def test_a_positive_whole_number(number):
    for unit in ("steps", "epochs", "env_steps"):
        with pytest.raises(PeriodError, match=rf"Every\({unit}=.*whole number of at least 1"):
            Every(**{unit: number})


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


@pytest.mark.parametrize(
    ("before", "now", "due"),
    [
        (0, 499, False),
        (0, 500, True),
        (499, 500, True),
        (500, 999, False),
        (500, 500, False),
        (250, 1750, True),
        (999, 1000, True),
        (1000, 1001, False),
        (1001, 1499, False),
        (1499, 1500, True),
    ],
)
def test_multiples_of_env_steps_are_passed(before, now, due):
    assert Every(env_steps=500).due(7, 1, False, env_steps=(before, now)) == due


def test_nothing_is_due_of_itself():
    assert not Every(env_steps=1).due(1, 1, False)
    assert not Every(steps=2).due(2, 1, False, before=5)  # a loop that begins again
    with pytest.raises(TypeError):
        Every(3)
    with pytest.raises(PeriodError) as caught:
        Every.parse("100t")
    assert "might be" not in str(caught.value)


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
