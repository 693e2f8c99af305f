"""Statistics are produced before they are consumed, or nothing starts."""

import pytest

from towerpack_callbacks import Callback, MaxSaver, StatisticError
from towerpack_callbacks.loop import check_statistics


class Producer(Callback):
    """Puts one statistic in its trigger."""

    def __init__(self, name):
        self.name = name

    def produces(self):
        return [self.name]


def test_in_order():
    check_statistics([Producer("accuracy"), MaxSaver("accuracy")])


def test_the_wrong_order_names_the_right_one():
    with pytest.raises(StatisticError, match=r"this order works: \[Producer, MaxSaver\('accuracy'\)\]"):
        check_statistics([MaxSaver("accuracy"), Producer("accuracy")])


def test_an_unknown_statistic_is_answered_with_close_names():
    with pytest.raises(
        StatisticError, match=r"'accuracu', which no callback produces. Did you mean 'accuracy'\?"
    ):
        check_statistics([Producer("accuracy"), MaxSaver("accuracu")])


def test_the_error_lists_statistics_and_the_remedy():
    with pytest.raises(
        StatisticError,
        match=r"Available statistics: loss. If your callback puts it, return its name from "
        r"produces",
    ):
        check_statistics([Producer("loss"), MaxSaver("zzz")])


def test_statistics_of_the_run_are_there_for_every_trigger():
    class InRun(Callback):
        def produces_in_run(self):
            return ["cost"]

    check_statistics([MaxSaver("cost"), InRun()])
