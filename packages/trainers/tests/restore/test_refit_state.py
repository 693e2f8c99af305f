"""A run continues with other batches and processes, after the datapoints already used."""

import logging

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from towerpack_callbacks import Callback, Callbacks, CheckpointError, LoopState, ModelSaver, StopTraining
from towerpack_dataflow import BatchData, DataFromList, MapData, RepeatedData, ShardData
from towerpack_inputsource import BatchQueueInput, FeedInput
from towerpack_trainers import ModelDesc, SimpleTrainer
from towerpack_trainers.restore import RunState


class Numbers(ModelDesc):
    """Records its training data."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        self.x = tf.identity(x)
        return tf.reduce_mean(tf.square(tf.get_variable("w", []) - x))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)


class Seen(Callback):
    """Records the datapoints of each epoch; saves and stops after a step."""

    def __init__(self, model, stop=None):
        self.model, self.stop = model, stop
        self.epochs, self.sizes, self.ended = {}, [], []

    def _before_run(self, context):
        return self.model.x

    def _after_run(self, context, values):
        numbers = values.results.astype(int).tolist()
        self.epochs.setdefault(self.epoch_num, []).extend(numbers)
        self.sizes.append(len(numbers))

    def _trigger_step(self):
        if self.global_step == self.stop:
            raise StopTraining("here")

    def _trigger_epoch(self):
        self.ended.append((self.epoch_num, self.global_step))


class SavedAt(Callback):
    """Saves after a step."""

    def __init__(self, step, saver):
        self.step, self.saver = step, saver

    def _trigger_step(self):
        if self.global_step == self.step:
            self.saver.trigger()


@pytest.fixture
def train(configure):
    """Trains on 26 numbers in batches; returns the datapoints of the steps."""

    def run(batch, stop=None, flow=None, **changes):
        model, saver = Numbers(), ModelSaver()
        seen = Seen(model, stop)
        numbers = DataFromList([[float(number)] for number in range(26)], shuffle=True)
        given = {
            "model": model,
            "dataflow": flow or BatchData(numbers, batch, remainder=True),
            "callbacks": [saver, SavedAt(stop, saver), seen],
            "max_epoch": 3,
            "resume": "auto",
            **changes,
        }
        SimpleTrainer(configure(**given)).train()
        return seen

    return run


def test_another_batch_size_is_refused_unless_allowed(train, caplog):
    first = train(4, stop=3)  # 12 of 26
    with pytest.raises(CheckpointError, match=r"has 4 datapoints in a batch .* \(now 5\).*allow=\['batch'\]"):
        train(5)
    caplog.set_level(logging.WARNING)
    second = train(5, resume_allow=["batch"])
    assert "1 processes with 5 datapoints in a batch of all of them, instead of 1 with 4" in caplog.text
    assert "at datapoint 12 of pass 0, both from 0; epoch 1 has 3 steps left" in caplog.text
    assert sorted(first.epochs[1] + second.epochs[1]) == list(range(26))
    assert second.sizes[:3] == [5, 5, 4]
    assert [sorted(second.epochs[epoch]) for epoch in (2, 3)] == [list(range(26))] * 2


@pytest.mark.slow
def test_twice_in_an_epoch_and_again_with_the_same(train):
    parts = [
        train(4, stop=2),
        train(7, stop=3, resume_allow=["batch"]),
        train(7, stop=4),
        train(3, resume_allow=["batch"], max_epoch=1),
    ]
    assert [seen.sizes for seen in parts] == [[4, 4], [7], [7], [3, 1]]
    assert sorted(number for seen in parts for number in seen.epochs[1]) == list(range(26))


def test_after_an_epoch_the_next_one_is_complete(train):
    train(8, flow=dropping(8), max_epoch=1)  # 2 of 26 are dropped
    seen = train(2, flow=dropping(2), resume_allow=["batch"], max_epoch=2)
    assert sorted(seen.epochs[2]) == list(range(26)) and list(seen.epochs) == [2]


def test_batches_made_in_the_graph_cannot_change(train):
    def queued(size):
        return BatchQueueInput([[float(number)] for number in range(26)], size)

    train(4, data=queued(4), stop=3)
    with pytest.raises(
        CheckpointError, match=r"BatchQueueInput reads no such flow: .* QueueInput over BatchData\(flow"
    ):
        train(5, data=queued(5), resume_allow=["batch"])


def dropping(size):
    return BatchData(DataFromList([[float(number)] for number in range(26)]), size)


@pytest.mark.parametrize("max_epoch", [1, 2])
def test_an_epoch_without_a_batch_left_still_ends(train, caplog, max_epoch):
    first = train(4, flow=dropping(4), stop=5)  # 20 of 26
    caplog.set_level(logging.WARNING)
    second = train(8, flow=dropping(8), resume_allow=["batch"], max_epoch=max_epoch)
    assert "epoch 1 has 0 steps left" in caplog.text
    assert first.ended == [] and second.ended == [(1, 5), (2, 8)][:max_epoch]
    assert second.sizes == [8, 8, 8] * (max_epoch - 1)
    assert train(8, flow=dropping(8), max_epoch=max_epoch).ended == []


def test_epochs_that_are_not_passes_use_the_same_amount_of_data(train):
    first = train(2, stop=6, steps_per_epoch=10)
    second = train(4, steps_per_epoch=5, resume_allow=["batch"], max_epoch=1)
    assert sorted(first.epochs[1] + second.epochs[1]) == sorted({*first.epochs[1], *second.epochs[1]})
    assert (len(first.sizes), second.sizes) == (6, [4, 4])


def test_another_number_of_processes_is_refused_unless_allowed():
    state = saved(2, 3, 2)
    with pytest.raises(
        CheckpointError, match=r"has 6 .* \(now 9\); and 2 pro.* \(now 3\).*\['batch', 'world'\]"
    ):
        resumed(0, 3, 3, state, allow=())
    with pytest.raises(CheckpointError, match=r"has 2 processes \(now 3\).*'world'\]\) to continue"):
        resumed(0, 3, 2, state, allow=["batch"])
    assert resumed(0, 3, 2, state, allow=["world"])


def test_batches_that_cannot_be_divided_are_refused():
    flow = BatchData(RepeatedData(ShardData(numbers(24), 0, 2), 2), 3, remainder=True)
    state = {**saved(1, 4, 2), "processes": 2}
    state["input"]["flow"]["flow"][""]["batch_size"] = 8
    with pytest.raises(CheckpointError, match=r"cannot be translated to other batches: .*resume_allow="):
        run_state(flow, ["batch"]).refit(state, 2)


# ---- all processes together


def numbers(length):
    return MapData(DataFromList([[number] for number in range(length)]), list)


def host(index, count, size, length=24):
    return BatchData(ShardData(numbers(length), index, count), size, remainder=True)


def run_state(flow, allow):
    flow.seed(4)
    loop = LoopState(steps_per_epoch=len(flow))
    return RunState(loop, 4, Callbacks([]), FeedInput(flow), allow)


def saved(count, size, steps, length=24):
    """The chief's state after the given number of steps."""
    flow = host(0, count, size, length)
    run = run_state(flow, ())
    state = {**run.state_dict(), "processes": count, "input": {"flow": flow.state_at(steps)}}
    state["input"]["flow"]["seed"] = 4
    return {**state, "loop": {**state["loop"], "epoch_num": 1, "local_step": steps - 1}}


def resumed(index, count, size, state, length=24, allow=("batch", "world")):
    """The datapoints of a process until the end of the epoch, and its steps."""
    flow = host(index, count, size, length)
    run = run_state(flow, allow)
    run.load_state_dict(run.refit(state, count))
    flow.load_state_dict(run.source.state_dict()["flow"])
    return [batch[0].tolist() for batch in flow], run.loop


worlds = st.integers(1, 4)


@settings(deadline=None)
@given(worlds, worlds, st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.data())
def test_the_rest_of_an_epoch_is_used_once(was, count, size, other, rounds, data):
    length = rounds * 12
    steps = data.draw(st.integers(0, len(host(0, was, size, length)) - 1))
    state = saved(was, size, steps, length)
    whole = host(0, 1, length, length)
    whole.seed(4)
    [[order]] = whole
    rests, loops = zip(*(resumed(index, count, other, state, length) for index in range(count)))
    begins = {(loop.starting_epoch, loop.starting_step) for loop in loops}
    assume(len(begins) == 1)  # otherwise the trainer refuses it
    [(epoch, step)] = begins
    assert epoch == 1 and {len(rest) for rest in rests} == {loops[0].steps_per_epoch - step}
    taken = [number for rest in rests for batch in rest for number in batch]
    assert sorted(taken) == sorted(order[steps * size * was :].tolist())
