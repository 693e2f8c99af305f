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


def test_batches_of_a_fixed_size():
    source = RolloutInput(batch_size=3)
    source.setup(SPECS)
    x, y = source.get_input_tensors()
    assert (x.shape, y.shape) == ([3, 2], [3])
    with running(source) as session:
        source.put_all([batch(1), batch(2)])
        with pytest.raises(DatapointShapeError, match=r"\(4, 2\)"):
            source.put(batch(3, size=4))
        assert [session.run(y)[0] for _ in range(2)] == [1, 2]


def test_a_batch_size_is_at_least_one():
    with pytest.raises(
        ValueError, match="batch_size is the number of examples in a batch, at least 1; received 0"
    ):
        RolloutInput(batch_size=0)


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


def test_a_pass_cannot_be_restarted(source):
    source.get_input_tensors()
    with running(source), pytest.raises(NotRunningError, match="the training creates the batches"):
        source.reset_state()
    assert source.state_dict() == {}


def test_putting_all_is_putting_each_in_order(source):
    x, y = source.get_input_tensors()
    sizes = [3, 3, 3, 2, 2]
    with running(source) as session:
        source.put_all([])
        source.put_all(batch(number, size) for number, size in enumerate(sizes))
        found = [session.run([x, y]) for _ in sizes]
    assert [each[0].shape for each in found] == [(size, 2) for size in sizes]
    assert [each[1][0] for each in found] == list(range(5))


def test_large_ones_and_such_of_other_kinds_are_put_by_themselves(source):
    x, y = source.get_input_tensors()
    pictures = [[np.full([50_000, 2], number, np.float32), np.full([50_000], number)] for number in range(3)]
    others = [dict(zip("xy", batch(3))), [[[4.0, 4.0]], [4]], batch(5)]
    with running(source) as session:
        source.put_all([*pictures, *others])
        found = [session.run([x, y]) for _ in range(6)]
    assert [(each[0][0, 0], each[1][0]) for each in found] == [(number, number) for number in range(6)]


def test_combined_arrays_may_be_modified_afterwards(source):
    _, y = source.get_input_tensors()
    batches = [batch(1), batch(2)]
    with running(source) as session:
        source.put_all(batches)
        for array in (array for each in batches for array in each):
            array[:] = 9
        assert [session.run(y).tolist() for _ in batches] == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize("size", [3, 50_000])
def test_the_memory_of_one_may_be_reused_for_the_next(source, size):
    def reusing():
        arrays = batch(0, size)
        for number in range(4):
            for array in arrays:
                array[...] = number
            yield arrays

    x, y = source.get_input_tensors()
    with running(source) as session:
        source.put_all(reusing())
        found = [session.run([x, y]) for _ in range(4)]
    assert [(each[0][0, 0], each[1][0]) for each in found] == [(number, number) for number in range(4)]


def test_an_error_of_one_of_several_names_its_own_shape(source):
    source.get_input_tensors()
    wrong = [np.zeros([3, 4], np.float32), np.zeros([3], np.int64)]
    with running(source), pytest.raises(DatapointShapeError, match=r"received shape \(3, 4\), declared"):
        source.put_all([wrong, wrong])


def test_many_before_a_session_are_an_error(source):
    with pytest.raises(NotRunningError, match="put_all"):
        source.put_all([batch(1)])


def test_neighbours_without_examples_are_put_like_others(source):
    x, y = source.get_input_tensors()
    sizes = [0, 0, 0, 2, 2, 0, 0]
    with running(source) as session:
        source.put_all(batch(number, size) for number, size in enumerate(sizes))
        found = [session.run([x, y]) for _ in sizes]
    assert [(each[0].shape, each[1].shape) for each in found] == [((size, 2), (size,)) for size in sizes]


def test_neighbours_with_one_empty_component_are_put_like_others(source):
    x, y = source.get_input_tensors()
    datapoints = [[np.zeros([0, 2], np.float32), np.array([number])] for number in range(3)]
    with running(source) as session:
        source.put_all(datapoints)
        found = [session.run([x, y]) for _ in datapoints]
    assert [(each[0].shape, each[1].tolist()) for each in found] == [((0, 2), [n]) for n in range(3)]
