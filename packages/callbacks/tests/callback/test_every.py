"""Periods by themselves."""

import pytest

from towerpack_callbacks import Every, PeriodError
from towerpack_callbacks.callback import as_every


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
def test_invalid_periods(text):
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


def test_seconds_need_a_ticker():
    with pytest.raises(PeriodError, match=r"Use Ticker\(every\)"):
        Every(seconds=1).due(1, 1, False)


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


def test_a_repeated_query_is_not_due():
    assert not Every(env_steps=1).due(1, 1, False)
    assert not Every(steps=2).due(2, 1, False, before=5)  # a loop that starts again
    with pytest.raises(TypeError):
        Every(3)
    with pytest.raises(PeriodError) as caught:
        Every.parse("100t")
    assert "might be" not in str(caught.value)
