"""Statistics that stay beyond a limit: a warning, or the end."""

import logging

import pytest

from towerpack_callbacks import Callback, CollapseAlarm, StatisticError, StopAtCollapse, StopTraining
from towerpack_callbacks.loop import PlainLoop

NAN = float("nan")


class Put(Callback):
    """Puts one of some values at each trigger; None: none."""

    def __init__(self, values):
        self._values = list(values)

    def _trigger(self):
        value = self._values.pop(0)
        if value is not None:
            self.trainer.monitors.put_scalar("variance", value)

    def produces(self):
        return ["variance"]


def run(values, alarm):
    loop = PlainLoop([Put(values), alarm], 1, len(values), None)
    loop.train()
    return loop.loop.global_step


def warnings(caplog, values, **limit):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "towerpack_callbacks"):
        run(values, CollapseAlarm("variance", **limit))
    return [record.getMessage() for record in caplog.records if "collapsed" in record.getMessage()]


def test_it_warns_once_when_enough_values_are_beyond_the_limit(caplog):
    assert warnings(caplog, [0.5, 0.1, 0.1, 0.5, 0.1, 0.1], below=0.2) == []
    [message] = warnings(caplog, [0.1] * 7, below=0.2)
    assert message.startswith(
        "The GAN seems to have collapsed: variance is 0.1, and was below 0.2 in its last 3"
    )
    assert len(warnings(caplog, [0.1, 0.1, 0.5, 0.1, 0.1], below=0.2, patience=2)) == 2


def test_an_upper_limit_and_nan(caplog):
    assert len(warnings(caplog, [0.99, 1.0], above=0.98, patience=2)) == 1
    assert warnings(caplog, [0.98, 0.98], above=0.98, patience=2) == []
    assert len(warnings(caplog, [NAN, NAN], above=0.98, patience=2)) == 1
    assert len(warnings(caplog, [NAN, 0.1], below=0.2, patience=2)) == 1


def test_only_new_values_count(caplog):
    assert warnings(caplog, [0.1, None, None, None, 0.1], below=0.2) == []


def test_it_stops():
    assert run([0.5, 0.1, 0.1, 0.1, 0.1], StopAtCollapse("variance", below=0.2, patience=2)) == 3


def test_a_resumed_run_continues_counting():
    first, second = (StopAtCollapse("variance", below=0.2) for _ in range(2))
    run([0.1, 0.1], first)
    loop = PlainLoop([Put([0.1] * 4), second], 1, 4, None)
    second.load_state_dict({**first.state_dict(), "seen": -1})
    loop.train()
    assert loop.loop.global_step == 1


def test_a_run_that_it_has_stopped_stops_again():
    alarm = StopAtCollapse("variance", below=0.2, patience=1)
    run([0.1], alarm)
    again = StopAtCollapse("variance", below=0.2, patience=1)
    PlainLoop([Put([0.1]), again], 1, 1, None)
    again.load_state_dict({**alarm.state_dict(), "seen": -1})
    again.trainer.monitors.put_scalar("variance", 0.1)
    with pytest.raises(StopTraining, match="the GAN seems to have collapsed: variance is"):
        again.trigger()


def test_its_statistic_must_be_produced_before():
    with pytest.raises(StatisticError, match=r"CollapseAlarm\('variance'\) reads the statistic"):
        PlainLoop([CollapseAlarm("variance", below=1), Put([])], 1, 1, None)


@pytest.mark.parametrize("limits", [{}, {"below": 0.1, "above": 0.9}])
def test_there_is_one_limit(limits):
    with pytest.raises(
        ValueError,
        match=r"StopAtCollapse\(below=.*: expected a number for exactly one of "
        r"them",
    ):
        StopAtCollapse("variance", **limits)


def test_patience_is_a_count():
    with pytest.raises(ValueError, match=r"CollapseAlarm\(patience=0\): expected a whole number"):
        CollapseAlarm("variance", below=1, patience=0)
