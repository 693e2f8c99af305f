import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import DatapointShapeError, NotRunningError, RolloutInput
from towerpack_inputsource.testing import check_input_source

SPECS = [tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "y")]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def source():
    source = RolloutInput()
    source.setup(SPECS)
    return source


def batch(number, size=3):
    return [np.full([size, 2], number, np.float32), np.full([size], number, np.int64)]


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


def test_it_keeps_the_promises_of_sources_that_read_no_flow():
    check_input_source(lambda flow: RolloutInput(), SPECS)


def test_each_take_is_the_next_batch_also_of_another_size(source):
    x, y = source.get_input_tensors()
    with running(source) as session:
        for number, size in enumerate([3, 1, 4]):
            source.put(batch(number, size))
        found = [session.run([x, y]) for _ in range(3)]
    assert [len(each[0]) for each in found] == [3, 1, 4]
    assert [each[1][0] for each in found] == [0, 1, 2]


def test_towers_share_one_queue(source):
    first, second = source.get_input_tensors(), source.get_input_tensors()
    with running(source) as session:
        source.put(batch(5))
        source.put(batch(6))
        numbers = session.run([first[1], second[1]])
    assert sorted(each[0] for each in numbers) == [5, 6]


def test_batches_by_name(source):
    _, y = source.get_input_tensors()
    with running(source) as session:
        source.put(dict(zip("xy", batch(7))))
        assert session.run(y).tolist() == [7, 7, 7]


def test_a_batch_that_does_not_fit_is_refused(source):
    source.get_input_tensors()
    with running(source), pytest.raises(DatapointShapeError, match="'y'"):
        source.put([np.zeros([3, 2], np.float32), np.zeros([3, 1], np.int64)])


def test_put_needs_a_session(source):
    source.get_input_tensors()
    with pytest.raises(NotRunningError, match="put"):
        source.put(batch(0))
    with running(source):
        pass
    with pytest.raises(NotRunningError, match="put"):
        source.put(batch(0))


def test_there_is_no_pass_to_begin_anew(source):
    source.get_input_tensors()
    with running(source), pytest.raises(NotRunningError, match="made by the training"):
        source.reset_state()
    assert source.state_dict() == {}
