"""The starting point of a run: nothing, values, or a checkpoint."""

import logging
import random

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, CheckpointError, LoopState
from towerpack_callbacks.checkpoint import write_checkpoint
from towerpack_trainers import DictRestore
from towerpack_trainers.restore import FreshStart, LoadedStart, ResumedStart, RunState, find_starting_point

LOOP = {"epoch_num": 2, "local_step": 1, "global_step": 7, "steps_per_epoch": 5}


def identity(state):
    return state


class Total(Callback):
    """Has a state."""

    total = 0

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


class Data:
    """An input with a position."""

    def __init__(self):
        self.position = {"flow": {"epoch": 0, "index": 0}}

    def size(self):
        return None

    def state_dict(self):
        return self.position

    def load_state_dict(self, position):
        self.position = position


def make_run(callback=None, allow=(), source=None):
    return RunState(LoopState(steps_per_epoch=5), 3, Callbacks([callback or Total()]), source, allow)


@pytest.fixture
def save(tmp_path):
    """Writes a checkpoint of one variable "v" and a state."""

    def write(name="model-7", **state):
        return write_checkpoint(tmp_path / name, {"v": np.float32(5)}, state)

    return write


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return graph


def test_nothing_to_start_from(tmp_path, graph):
    for resume, log_dir in ((None, None), ("auto", tmp_path), ("auto", tmp_path / "not there")):
        start = find_starting_point(resume, log_dir)
        assert isinstance(start, FreshStart)
        assert (start.path, start.state, start.initial_values(graph)) == (None, None, {})
        start.restore(None, make_run(), identity)
        start.restore_random_numbers()


def test_a_checkpoint_goes_before_given_values(save, tmp_path):
    init = DictRestore({})
    assert isinstance(find_starting_point("auto", tmp_path, init), LoadedStart)
    path = save(loop=LOOP, callbacks={})
    for resume, log_dir in (("auto", tmp_path), (path, None), (str(tmp_path), None)):
        start = find_starting_point(resume, log_dir, init)
        assert isinstance(start, ResumedStart)
        assert start.path == path


def test_unreadable_checkpoints_are_refused(tmp_path):
    with pytest.raises(CheckpointError):
        find_starting_point(tmp_path / "nothing", None)


def test_the_seed(save, caplog):
    caplog.set_level(logging.INFO)
    assert FreshStart().choose_seed(4) == 4
    assert not caplog.records
    drawn = FreshStart().choose_seed(None)
    assert caplog.messages == [
        f"No seed was given; this run and its data use seed {drawn}: seed={drawn} repeats it."
    ]
    assert 0 <= drawn < 2**31
    assert drawn != FreshStart().choose_seed(None)
    assert find_starting_point(save(loop=LOOP, callbacks={}, seed=9), None).choose_seed(4) == 9


def test_given_values_are_assigned(graph):
    with tf.Session(graph=graph) as sess:
        variable = graph.get_collection("variables")[0]
        sess.run(variable.initializer)
        start = find_starting_point(None, None, DictRestore({"v": np.float32(2)}))
        assert start.initial_values(graph) == {}
        start.restore(sess, make_run(), identity)
        assert sess.run(variable) == 2


def test_a_resumed_run_restores_everything(save, graph, caplog):
    caplog.set_level(logging.INFO)
    total, data = Total(), Data()
    run = make_run(total, source=data)
    state = {"loop": LOOP, "callbacks": {"Total": {"total": 8}}, "input": {"flow": {"index": 4}}}
    start = find_starting_point(save(**state), None)
    assert start.initial_values(graph) == {"v": 5}
    start.restore(None, run, identity)
    assert (run.loop.starting_epoch, run.loop.starting_step, run.loop.global_step) == (2, 2, 7)
    assert (total.total, data.position) == (8, {"flow": {"index": 4}})
    assert caplog.messages == [f"Resuming from {start.path}."]


def test_a_state_may_be_translated_for_this_run(save):
    run = make_run()
    find_starting_point(save(loop=LOOP, callbacks={}), None).restore(
        None, run, lambda state: {**state, "loop": {**LOOP, "global_step": 70}}
    )
    assert run.loop.global_step == 70


def test_the_arrays_are_released_after_use(save, graph):
    start = find_starting_point(save(loop=LOOP, callbacks={}), None, allow=["missing"])
    assert list(start.initial_values(graph)) == ["v"]
    assert start.initial_values(graph) == {}


def test_variables_alone_cannot_be_resumed(save, graph):
    start = find_starting_point(save(), None)
    with pytest.raises(CheckpointError, match=r"holds no state of a training, only variables.*session_init="):
        start.initial_values(graph)


def test_random_numbers_continue(save):
    from towerpack_callbacks.checkpoint import random_state

    random.seed(5)
    np.random.seed(5)
    start = find_starting_point(save(loop=LOOP, callbacks={}, random=random_state()), None)
    drawn = random.random(), np.random.random()
    start.restore_random_numbers()
    assert (random.random(), np.random.random()) == drawn


def test_a_state_is_json_of_all_parts():
    state = make_run(source=Data()).state_dict()
    assert list(state) == ["loop", "seed", "callbacks", "input", "data"]
    assert (state["seed"], state["callbacks"]) == (3, {"Total": {"total": 0}})
    assert "input" not in make_run().state_dict()


def test_allowed_differences_are_skipped(caplog):
    data = Data()
    state = {"loop": LOOP, "callbacks": {"Other": {"n": 1}}, "input": {"flow": {"index": 4}}}
    with pytest.raises(CheckpointError, match="Other"):
        make_run(source=data).load_state_dict(state)
    make_run(source=data, allow=["callbacks", "input"]).load_state_dict(state)
    assert data.position == {"flow": {"epoch": 0, "index": 0}}
    assert "The data restarts from the beginning (allowed by resume_allow)" in caplog.text


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ({"datapoints": 7, "components": []}, None),
        ({"datapoints": None, "components": [["float32", [None, 4]]]}, None),
        ({"datapoints": None, "components": [["float32", None], ["int32", [8]]]}, None),
        (
            {"datapoints": 7, "components": [["float32", [8, 5]]]},
            r"component 0 is float32 of shape \[8, 4\], ",
        ),
        (
            {"datapoints": 7, "components": [["uint8", [8, 4]]]},
            r"component 0 is float32 of .*, uint8 of shape",
        ),
    ],
)
def test_known_properties_of_the_data_are_compared(described, told):
    with tf.Graph().as_default():
        run = attrs.evolve(make_run(source=Data()), inputs=[tf.placeholder(tf.float32, [8, 4])])
    state = {"loop": LOOP, "callbacks": {}, "input": {"flow": {"index": 4}}, "data": described}
    if told is None:
        run.load_state_dict(state)
        return
    with pytest.raises(CheckpointError, match=told):
        run.load_state_dict(state)


def test_data_without_a_position_restarts_with_a_warning(caplog):
    data = Data()
    make_run(source=data).load_state_dict({"loop": LOOP, "callbacks": {}, "input": {"flow": None}})
    assert "The input has no state_dict(), so it restarts from the beginning" in caplog.text
    assert data.position == {"flow": None}
