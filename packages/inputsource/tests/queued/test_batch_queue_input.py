import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import BatchQueueInput, DatapointShapeError, SpecError
from towerpack_inputsource.testing import ListFlow

N = tf.TensorSpec([None], tf.int32, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(flow, batch_size, spec=N, **options):
    source = BatchQueueInput(flow, batch_size, **options)
    source.setup([spec])
    return source, source.get_input_tensors()[0]


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


def test_batches_reach_over_the_end_of_an_endless_pass():
    source, n = build([[0], [1], [2]], 2)
    with running(source) as session:
        assert [session.run(n).tolist() for _ in range(3)] == [[0, 1], [2, 0], [1, 2]]


def test_the_last_batch_of_a_finite_pass_has_the_rest():
    source, n = build([[0], [1], [2]], 2, infinite=False)
    taken = []
    with running(source) as session:
        while True:
            taken.append(session.run(n).tolist())
    assert taken == [[0, 1], [2]]


def test_dicts_by_name_and_several_components():
    source = BatchQueueInput([{"b": [k, k], "a": k} for k in range(4)], 2)
    source.setup([tf.TensorSpec([2], tf.int32, "a"), tf.TensorSpec([None, 2], tf.int32, "b")])
    a, b = source.get_input_tensors()
    assert a.shape.as_list() == [2] and b.shape.as_list() == [2, 2]
    with running(source) as session:
        values = session.run([a, b])
    assert [value.tolist() for value in values] == [[0, 1], [[0, 0], [1, 1]]]


def test_each_tower_takes_a_separate_batch():
    source, first = build([[k] for k in range(12)], 3, infinite=False)
    [second] = source.get_input_tensors()
    with running(source) as session:
        taken = [int(n) for _ in range(2) for batch in session.run([first, second]) for n in batch]
    assert sorted(taken) == list(range(12))


def test_the_position_counts_datapoints():
    source, n = build(ListFlow([[k] for k in range(7)]), 2, capacity=3, infinite=False)
    with running(source) as session:
        for done in (2, 4, 6, 7):
            session.run(n)
            assert source.state_dict() == {"flow": {"next": done}}
    assert source.state_dict() == {"flow": {"next": 7}}


@pytest.mark.parametrize(
    ("count", "batch_size", "infinite", "size"),
    [
        (10, 5, True, 2),
        (11, 5, True, 2),
        (11, 5, False, 3),
        (3, 5, True, 1),
        (3, 5, False, 1),
        (0, 5, True, 0),
    ],
)
def test_sizes(count, batch_size, infinite, size):
    assert BatchQueueInput([[0]] * count, batch_size, infinite=infinite).size() == size


def test_an_unknown_size():
    assert BatchQueueInput(ListFlow([], has_length=False), 2, infinite=False).size() is None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (None, r"all axes but the first must be known; received <unknown> for 'n'"),
        ([], r"all axes but the first must be known; received \(\) for 'n'"),
        ([None, None], r"received \(None, None\) for 'n'.*QueueInput"),
        ([3], r"first axis of 'n' is declared as 3, but the batch size is 2. Declare it as None or 2"),
        ([2], r"declared as 2, but with infinite=False the last batch may be smaller"),
    ],
)
def test_shapes_are_checked(shape, message):
    with pytest.raises(SpecError, match=message):
        build([[0]], 2, tf.TensorSpec(shape, tf.int32, "n"), infinite=False)


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="at least 1; received 0"):
        BatchQueueInput([[0]], 0)
    with pytest.raises(ValueError, match="capacity 3 cannot hold a batch of 4"):
        BatchQueueInput([[0]], 4, capacity=3)


def test_a_datapoint_that_does_not_fit():
    source, n = build([[0], [[1, 2]]], 2)
    with pytest.raises(DatapointShapeError, match=r"Datapoint 1 .*\(2,\)"), running(source) as session:
        session.run(n)


def test_the_statistic_counts_single_datapoints():
    build([[0]], 2)
    [size] = tf.get_collection("MOVING_SUMMARIES")
    assert size.op.name == "BatchQueueInput/queue_size"
