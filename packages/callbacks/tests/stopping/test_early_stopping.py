"""A training without improvement ends."""

import json

import pytest

from towerpack_callbacks import Callback, EarlyStopping, PeriodicTrigger


class Play(Callback):
    """Puts given values, one per epoch; None for none."""

    def __init__(self, values):
        self.values = values

    def _trigger(self):
        value = self.values[self.epoch_num - 1]
        if value is not None:
            self.trainer.monitors.put_scalar("error", value)

    def produces(self):
        return ["error"]


@pytest.mark.parametrize(
    ("values", "arguments", "epochs"),
    [
        ([3, 2, 2.5, 2.1, 2.0, 1], {"patience": 3}, 5),
        ([3, 2, 1, 0.5, 0.4, 0.3], {"patience": 1}, 6),
        ([3, 2.9, 2.8, 2.7, 2.6, 2.5], {"patience": 3, "min_delta": 0.25}, 6),
        ([3, 2.9, 2.8, 2.7, 2.6, 2.5], {"patience": 2, "min_delta": 0.5}, 3),
        ([1, 2, 3, 2, 2, 9], {"patience": 2, "mode": "max"}, 5),
        ([1, float("nan"), float("nan"), 0, 0, 0], {"patience": 2}, 3),
        ([1, None, None, 2, None, 3], {"patience": 2}, 6),
    ],
    ids=str,
)
def test_it_stops_when_it_should(line, values, arguments, epochs):
    steps = line.run([Play(values), EarlyStopping("error", **arguments)], steps_per_epoch=1, max_epoch=6)
    assert steps == epochs


def test_one_value_counts_once(line):
    stop = PeriodicTrigger(EarlyStopping("error", patience=2), every_k_steps=1)
    assert line.run([Play([1, 2, 2]), stop], steps_per_epoch=4, max_epoch=3) == 12


def test_it_continues_counting_after_a_restart(line, straight_line, tmp_path):
    first = EarlyStopping("error", patience=3)
    line.run([Play([1, 2, 2]), first], steps_per_epoch=1, max_epoch=3)
    second = EarlyStopping("error", patience=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert straight_line(tmp_path / "b").run([Play([1.5] * 9), second], steps_per_epoch=7, max_epoch=9) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patience": 0}, r"patience=0\): expected a whole number"),
        ({"patience": 1, "min_delta": -1}, r"min_delta=-1\): expected a number of at least 0"),
        ({"patience": 1, "mode": "best"}, r"mode='best'\): expected \"min\" or \"max\""),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        EarlyStopping("error", **arguments)
