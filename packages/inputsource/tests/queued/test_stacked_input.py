"""Small datapoints enter the queue many at a time; the steps and their positions show nothing of it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import BatchData, DataFromArrays, DataFromList, MapData
from towerpack_inputsource import BatchQueueInput, QueueInput, StagingInput
from towerpack_inputsource.queued._queue_input import default_capacity

N = tf.TensorSpec([None], tf.int32, "n")
few = settings(max_examples=6)
slow = pytest.mark.slow


def from_arrays(length, size, remainder):
    return BatchData(DataFromArrays([np.arange(length, dtype="int32")], shuffle=True), size, remainder)


def from_list(length, size, remainder):
    numbers = DataFromList([[np.int32(k)] for k in range(length)], shuffle=True)
    return BatchData(MapData(numbers, lambda datapoint: [2 * datapoint[0]]), size, remainder)


flows = st.tuples(
    st.sampled_from([from_arrays, from_list]), st.integers(6, 90), st.integers(1, 5), st.booleans()
)


def seeded(flow):
    make, *arguments = flow
    made = make(*arguments)
    made.seed(1)
    return made


def values_of(flow, count):
    """Returns the first batches of a flow that repeats, and the position after each."""
    values, positions = [], [flow.state_dict()]
    while len(values) < count:
        for [batch] in flow:
            values.append(batch.tolist())
            positions.append(flow.state_dict())
    return values[:count], positions[:count]


def place(position):
    """Returns the number of the pass and that of the datapoint."""
    return position["epoch"], position["index"]


@slow
@few
@given(flows, st.one_of(st.none(), st.integers(1, 80)), st.integers(1, 200))
def test_any_flow_queue_and_number_of_steps(flow, capacity, steps):
    expected, _ = values_of(seeded(flow), steps)
    length = len(seeded(flow))
    with tf.Graph().as_default():
        source = QueueInput(seeded(flow), capacity)
        source.setup([N])
        [n] = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            for step, value in enumerate(expected):
                epoch, index = place(source.state_dict()["flow"])
                assert epoch * length + index == step
                assert session.run(n).tolist() == value
        left = source.state_dict()
    with tf.Graph().as_default():
        resumed = QueueInput(seeded(flow), capacity)
        resumed.load_state_dict(left)
        resumed.setup([N])
        [n] = resumed.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=resumed.hooks()) as session:
            rest, _ = values_of(seeded(flow), steps + 10)
            assert [session.run(n).tolist() for _ in range(10)] == rest[steps:]


@slow
@few
@given(flows, st.integers(1, 80), st.booleans())
def test_a_finite_pass_in_one_session_call_a_step(flow, capacity, staged):
    expected, _ = values_of(seeded(flow), len(seeded(flow)))
    taken = []
    with tf.Graph().as_default():
        source = QueueInput(seeded(flow), capacity, infinite=False)
        source = StagingInput(source) if staged else source
        source.setup([N])
        [n] = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            for _ in range(2):
                source.reset_state()
                for _ in expected[: len(expected) // 2]:
                    session.run(n)
            source.reset_state()
            while True:
                taken.append(session.run(n).tolist())
    numbers = [number for batch in taken for number in batch]  # in the order of a later pass
    assert len(set(numbers)) == len(numbers) == sum(map(len, expected))
    assert len(taken) == len(expected)


@slow
@few
@given(st.integers(1, 90), st.integers(1, 7))
def test_single_datapoints_batched_in_the_graph(length, size):
    taken = []
    with tf.Graph().as_default():
        source = BatchQueueInput([[k] for k in range(length)], size, infinite=False)
        source.setup([N])
        [n] = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            while True:
                taken.append(session.run(n).tolist())
    assert [k for batch in taken for k in batch] == list(range(length))
    assert all(len(batch) == size for batch in taken[:-1])


@pytest.mark.parametrize(
    ("shape", "capacity"),
    [([32, 64], 256), ([32, 224, 224, 3], 50), ([None, 64], 128), ([256, 64], 64), (None, 50), ([], 256)],
)
def test_the_queue_of_small_datapoints_is_longer(shape, capacity):
    assert default_capacity([tf.TensorSpec(shape, tf.float32)]) == capacity
    assert default_capacity([tf.TensorSpec(shape, tf.string)]) == 50
