"""The mean of the last values."""

import json

import pytest

from towerpack_callbacks import Callback, SimpleMovingAverage


class Get(Callback):
    """Keeps the history of a statistic."""

    def consumes(self):
        return ["twice/SMA"]

    def _after_train(self):
        self.history = self.trainer.monitors.get_history("twice/SMA")


def test_the_mean_of_a_window(line):
    average, get = SimpleMovingAverage(["twice:0"], 4), Get()
    line.run([average, get])
    # What runs with a step reads the number of those before it: 0, 2, 4 | 6, 8, 10.
    assert get.history == [(3, 2.0), (6, 7.0)]
    other = SimpleMovingAverage(["twice"], 4)
    other.load_state_dict(json.loads(json.dumps(average.state_dict())))
    assert other.state_dict() == average.state_dict() == {"twice": [4.0, 6.0, 8.0, 10.0]}


@pytest.mark.parametrize("window", [0, -1, 1.5, "3"])
def test_a_window_is_a_number_of_steps(window):
    with pytest.raises(ValueError, match=r"window_size=.*whole number of at least 1"):
        SimpleMovingAverage(["cost"], window)


def test_names_come_in_a_list():
    with pytest.raises(TypeError, match=r"Write \['cost'\]"):
        SimpleMovingAverage("cost", 3)
