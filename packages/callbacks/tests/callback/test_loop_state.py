"""The counters of a loop are restored exactly."""

import json

import pytest

from towerpack_callbacks import LoopState


def loaded(steps, **state):
    loop = LoopState(steps_per_epoch=steps)
    loop.load_state_dict({"global_step": 7, "steps_per_epoch": 5, **state})
    return loop


@pytest.mark.parametrize(
    ("local_step", "steps", "begins"), [(-1, 5, (2, 0)), (2, 5, (2, 3)), (4, 5, (3, 0)), (3, 4, (3, 0))]
)
def test_a_resumed_run_starts_after_the_saved_step(local_step, steps, begins):
    loop = loaded(steps, epoch_num=2, local_step=local_step)
    assert (loop.starting_epoch, loop.starting_step) == begins and loop.global_step == 7


def test_an_epoch_whose_triggers_are_due_has_no_step_left():
    loop = loaded(5, epoch_num=2, local_step=4, triggers_due=True)
    assert (loop.starting_epoch, loop.starting_step) == (2, 5)
    again = loaded(5, **json.loads(json.dumps(loop.state_dict())))
    assert (again.starting_epoch, again.starting_step) == (2, 5)
    loop.epoch_num, loop.local_step = 2, 4  # it has begun
    assert "triggers_due" not in loop.state_dict()
