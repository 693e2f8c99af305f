"""The newest value of a statistic, and which of two values is better."""

import pytest

from towerpack_callbacks import LoopState, Monitors
from towerpack_callbacks.callback import StatisticWatch, is_better


@pytest.fixture
def store():
    loop = LoopState(steps_per_epoch=10)
    monitors = Monitors([], loop)
    monitors.at = lambda step, value: (setattr(loop, "global_step", step), monitors.put_scalar("a", value))
    return monitors


def test_each_value_is_new_once(store):
    watch = StatisticWatch("a")
    assert watch.next_value(store) is None
    store.at(3, 0.5)
    assert watch.next_value(store) == 0.5
    assert watch.next_value(store) is None
    assert watch.seen_step == 3
    resumed = StatisticWatch("a")
    resumed.seen_step = 3
    assert resumed.next_value(store) is None
    store.at(7, 0.5)
    assert resumed.next_value(store) == 0.5


def test_a_value_counts_at_its_own_step_alone(store):
    watch = StatisticWatch("a")
    assert watch.value_at(store, 3) is None
    store.at(3, 0.5)
    assert watch.value_at(store, 3) == 0.5
    assert watch.value_at(store, 4) is None


@pytest.mark.parametrize(
    ("value", "best", "mode", "min_delta", "better"),
    [
        (1.0, None, "max", 0.0, True),
        (float("nan"), None, "max", 0.0, False),
        (1.0, 1.0, "max", 0.0, False),
        (1.1, 1.0, "max", 0.0, True),
        (1.1, 1.0, "max", 0.2, False),
        (0.9, 1.0, "min", 0.0, True),
        (0.9, 1.0, "min", 0.2, False),
        (float("inf"), float("inf"), "max", 0.0, False),
        (float("-inf"), float("inf"), "min", 5.0, True),
    ],
)
def test_better(value, best, mode, min_delta, better):
    assert is_better(value, best, mode, min_delta) is better
