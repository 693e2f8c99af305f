import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import BatchData, DataFromArrays, DataFromGenerator
from towerpack_inputsource import DatapointShapeError, EmptyFlowError, FeedInput, SetupError
from towerpack_inputsource.testing import ListFlow

N = tf.TensorSpec([], tf.int32, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(flow, **options):
    source = FeedInput(flow, **options)
    source.setup([N])
    [n] = source.get_input_tensors()
    return source, n


def test_passes_repeat():
    source, n = build([[0], [1]])
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert [session.run(n) for _ in range(5)] == [0, 1, 0, 1, 0]


def test_another_op_may_have_the_name():
    tf.constant(7, name="n")
    source, n = build([[0], [1]])
    assert n.op.name == "n_1"
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert [session.run(n) for _ in range(3)] == [0, 1, 0]


def test_one_pass_raises_exactly_out_of_range():
    source, n = build([[0]], infinite=False)
    session = tf.train.MonitoredTrainingSession(hooks=source.hooks())
    session.run(n)
    with pytest.raises(tf.errors.OutOfRangeError, match="each datapoint") as caught:
        session.run(n)
    assert type(caught.value) is tf.errors.OutOfRangeError
    session.close()


def test_a_second_tower_is_refused():
    source, _ = build([[0]])
    with pytest.raises(SetupError, match=r"feed both towers the same datapoint. Use QueueInput"):
        source.get_input_tensors()


def test_nothing_to_feed():
    source, n = build([])
    with (
        pytest.raises(EmptyFlowError),
        tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session,
    ):
        session.run(n)


def test_a_datapoint_that_does_not_fit_names_its_index():
    source, n = build([[0], [[1, 2]]])
    with (
        pytest.raises(DatapointShapeError, match=r"Datapoint 1 .*component 0 \('n'\): received shape \(2,\)"),
        tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session,
    ):
        session.run(n)
        session.run(n)


def test_a_failed_run_has_consumed_nothing():
    source, n = build(ListFlow([[0], [1], [2]]))
    failing = tf.debugging.assert_less(n, 1)
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        session.run(failing)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(failing)
        assert source.state_dict() == {"flow": {"next": 1}}


def test_state_before_and_without_position():
    assert FeedInput(ListFlow([[0]])).state_dict() == {"flow": {"next": 0}}
    source = FeedInput(ListFlow([[0]]))
    source.load_state_dict({"flow": {"next": 1}})
    assert source.state_dict() == {"flow": {"next": 1}}
    assert FeedInput([[0]]).state_dict() == {"flow": None}


def test_prepares_the_flow_before_the_session():
    calls = []

    class Prepared(ListFlow):
        def reset_state(self):
            calls.append(tf.get_default_graph().finalized)

    source, _ = build(Prepared([[0]]))
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()):
        assert calls == [False]


def test_a_kept_buffer_is_not_aliased():
    memory = np.zeros(256, "uint8")
    start = -memory.ctypes.data % 64
    buffer = memory[start : start + 64].view("float32")

    class Reused:
        def __iter__(self):
            for k in range(3):
                buffer[:] = k
                yield [buffer]

    source = FeedInput(Reused(), infinite=False)
    source.setup([tf.TensorSpec([16], tf.float32, "x")])
    [x] = source.get_input_tensors()
    kept = tf.queue.FIFOQueue(9, [tf.float32], [[16]])
    keep, get = kept.enqueue([x]), kept.dequeue_many(3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        [_, hook] = source.hooks()
        hook.after_create_session(session, tf.train.Coordinator())
        for _ in range(3):
            session.run(keep, hook.before_run(None).feed_dict)
        assert session.run(get)[:, 0].tolist() == [0, 1, 2]


def numbers(count, batch=2):
    """A flow that makes blocks."""
    flow = BatchData(DataFromArrays([np.arange(count)], shuffle=True), batch, remainder=True)
    flow.seed(1)
    return flow


def feeds_of(flow, most, **options):
    """Returns the datapoints of one pass by calls for at most that many, and the position after each call."""
    source = FeedInput(flow, infinite=False, **options)
    spec = tf.TensorSpec([None], tf.int64, "n")
    source.setup([spec])
    source.get_input_tensors()
    datapoints, sizes, states = [], [], []
    for hook in source.hooks():  # a monitored session would take most of the time
        hook.begin()
        hook.after_create_session(None, tf.train.Coordinator())
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            feeds = source.next_feeds(most)
            states.append(source.state_dict())
            datapoints += [n.tolist() for (n,) in feeds]
            sizes.append(len(feeds))
    return datapoints, sizes, [*states, source.state_dict()]


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(1, 70),
    batch=st.integers(1, 3),
    most=st.integers(1, 9),
    ahead=st.sampled_from([1, 2, 8]),
)
def test_datapoints_read_ahead_are_those_of_single_reads(count, batch, most, ahead):
    with tf.Graph().as_default():
        one, sizes, positions = feeds_of(numbers(count, batch), 1)
    assert set(sizes) == {1}
    with tf.Graph().as_default():
        several, sizes, states = feeds_of(numbers(count, batch), most, ahead=ahead)
    assert several == one and max(sizes) <= min(most, ahead)
    # The datapoints of the calls before count as consumed.
    assert states == [positions[sum(sizes[:done])] for done in range(len(sizes) + 1)]


def test_runs_of_a_source_that_reads_ahead():
    seen, states = [], []
    for ahead in (1, 8):
        with tf.Graph().as_default():
            source = FeedInput(numbers(20), infinite=False, ahead=ahead)
            source.setup([tf.TensorSpec([None], tf.int64, "n")])
            [n] = source.get_input_tensors()
            seen.append([])
            states.append([])
            with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
                while not session.should_stop():
                    seen[-1].append(session.run(n).tolist())
                    states[-1].append(source.state_dict())
    assert seen[0] == seen[1] and states[0] == states[1] and len(seen[0]) == 10


def test_a_generator_is_not_read_ahead():
    read = []

    def generate():
        for number in range(9):
            read.append(number)
            yield [number]

    source = FeedInput(BatchData(DataFromGenerator(generate), 1), infinite=False, ahead=8)
    source.setup([tf.TensorSpec([None], tf.int32, "n")])
    source.get_input_tensors()
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()):
        for done in range(9):
            assert len(source.next_feeds(8)) == 1
            assert len(read) == done + 1


def test_reading_ahead_takes_a_number():
    with pytest.raises(ValueError, match="ahead is the number of datapoints to read at a time, at least 1"):
        FeedInput([[0]], ahead=0)
