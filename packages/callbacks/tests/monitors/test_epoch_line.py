"""The line of an epoch on the console, and the time that it estimates."""

import pytest

from towerpack_callbacks import LoopState
from towerpack_callbacks.monitors._console import EpochLine


def line_after(seconds, max_epoch, epoch_num=2):
    times = iter([100.0, 100.0 + seconds])
    line = EpochLine(whitelist=[""], clock=lambda: next(times))
    loop = LoopState(steps_per_epoch=10, max_epoch=max_epoch, global_step=5)  # resumed within epoch 1
    line.begin(loop)
    loop.epoch_num, loop.local_step, loop.global_step = epoch_num, 9, 10 * epoch_num
    line.put("cost", 0.5)
    return line.take(loop).line()


@pytest.mark.parametrize(
    ("seconds", "max_epoch", "expected"),
    [
        (150, 4, "epoch 2/4, step 20, 3 minutes 20 seconds left: cost 0.5"),
        (30, 4, "epoch 2/4, step 20: cost 0.5"),  # 40 seconds are left
        (150, 2, "epoch 2/2, step 20: cost 0.5"),
    ],
)
def test_the_remaining_time_of_a_run(seconds, max_epoch, expected):
    assert line_after(seconds, max_epoch) == expected


def test_no_remaining_time_without_a_last_epoch():
    assert line_after(150, None) == "epoch 2, step 20: cost 0.5"


def test_no_remaining_time_before_a_step():
    line = EpochLine(whitelist=[""])
    assert line.take(LoopState(steps_per_epoch=10, max_epoch=4)).line() == "epoch 0/4, step 0"
