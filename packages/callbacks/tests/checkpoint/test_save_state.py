"""States of objects that are not callbacks."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CheckpointError,
    CheckpointWriteError,
    ModelSaver,
    SaveState,
    as_session_hooks,
)
from towerpack_callbacks.checkpoint import read_checkpoint
from towerpack_callbacks.testing import check_callback


class Count:
    """Counts calls."""

    number = 0

    def state_dict(self):
        return {"number": self.number}

    def load_state_dict(self, state):
        self.number = state["number"]


class Each(Callback):
    """Lets an object count steps."""

    def __init__(self, count):
        self.count = count

    def _trigger_step(self):
        self.count.number += 1


def resume(line, callbacks):
    hooks = as_session_hooks(callbacks, steps_per_epoch=3, log_dir=line.log_dir, resume="auto", monitors=[])
    with line.graph.as_default(), tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        sess.run(line.train_op)


def test_objects_are_restored(line, straight_line):
    count = Count()
    line.run([SaveState(steps=count, other=Count()), Each(count), ModelSaver()])
    saved = read_checkpoint(line.log_dir).state["callbacks"]
    assert saved["SaveState(steps, other)"] == {"steps": {"number": 6}, "other": {"number": 0}}
    again = Count()
    resume(straight_line(line.log_dir), [SaveState(steps=again, other=Count()), Each(again)])
    assert again.number == 7
    with pytest.raises(CheckpointError, match=r"this run lacks: SaveState\(steps, other\)"):
        resume(straight_line(line.log_dir), [SaveState(steps=Count())])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"envs": object()}, r"SaveState\(envs=.*it lacks state_dict and load_state_dict\..*VectorEnvState"),
        ({"envs": Count}, r"it is a class, not an instance"),
        ({}, r"received no object"),
    ],
    ids=["no state", "class", "none"],
)
def test_objects_without_a_state(given, message):
    with pytest.raises(TypeError, match=message):
        SaveState(**given)


def test_a_state_that_is_no_json(line):
    count = Count()
    count.number = object()
    with pytest.raises(
        CheckpointWriteError, match=r"\['SaveState\(mine\)'\]\['mine'\]\['number'\] is <object"
    ):
        line.run([SaveState(mine=count), ModelSaver()])


def test_it_conforms(tmp_path):
    check_callback(lambda: SaveState(count=Count()), tmp_path)
