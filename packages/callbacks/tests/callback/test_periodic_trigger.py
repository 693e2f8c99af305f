"""Periods of a trigger around another callback."""

import pytest

from towerpack_callbacks import Callback, Every, PeriodicTrigger


class Note(Callback):
    """Keeps the steps at which it is triggered."""

    def __init__(self):
        self.steps = []

    def _trigger(self):
        self.steps.append(self.global_step)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"every": "2 steps"}, [2, 4, 6]), ({"every": Every(epochs=2)}, [6]), ({"every": "1000 h"}, [])],
)
def test_periods_of_a_trigger(line, arguments, expected):
    note = Note()
    line.run([PeriodicTrigger(note, **arguments)])
    assert note.steps == expected


@pytest.mark.parametrize("other", [{}, {"every_k_steps": 4}, {"every_k_epochs": 1}], ids=str)
def test_a_trigger_by_the_clock(line, other):
    note = Note()
    line.run([PeriodicTrigger(note, every=Every(seconds=1e-9), **other)])
    assert note.steps == [1, 2, 3, 4, 5, 6]
