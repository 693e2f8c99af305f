import itertools
import threading
import time
import traceback

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_inputsource import (
    DatapointShapeError,
    EmptyFlowError,
    FlowEndError,
    NotRunningError,
    QueueInput,
    SetupError,
    SpecError,
)
from towerpack_inputsource.testing import FlowFailure, ListFlow

N = tf.TensorSpec([], tf.int32, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def build(flow, specs=(N,), **options):
    source = QueueInput(flow, **options)
    source.setup(specs)
    return source, source.get_input_tensors()[0]


def begin(source, session):
    """Begins a session that is no monitored one; returns its coordinator."""
    coord = tf.train.Coordinator()
    for hook in source.hooks():
        hook.begin()
    for hook in source.hooks():
        hook.after_create_session(session, coord)
    return coord


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


class Gated(ListFlow):
    """Yields 0, 1, …, and fails or continues behind a gate; signals its arrival there."""

    def __init__(self, open_count, fails=True):
        super().__init__([[k] for k in range(1000)])
        self.open_count = open_count
        self.fails = fails
        self.arrived = threading.Event()
        self.gate = threading.Event()

    def _pass(self):
        for number, datapoint in enumerate(super()._pass()):
            if number == self.open_count:
                self.arrived.set()
                assert self.gate.wait(20)
                if self.fails:
                    raise FlowFailure("behind the gate")
            yield datapoint


def test_tensors_have_the_declared_shapes():
    specs = [tf.TensorSpec([None, 2], tf.float32, "image"), N]
    source = QueueInput([[np.zeros((1, 2), "float32"), 1]])
    source.setup(specs)
    for _ in range(2):
        image, n = source.get_input_tensors()
        assert image.shape.as_list() == [None, 2] and n.shape.as_list() == []
        assert image.device == "/device:CPU:0"


def test_on_the_cpu_for_any_tower():
    source = QueueInput([[1]])
    with tf.device("/gpu:0"):
        source.setup([N])
        [n] = source.get_input_tensors()
    assert n.device == "/device:CPU:0"


def test_passes_repeat():
    source, n = build([[0], [1], [2]], capacity=2)
    with running(source) as session:
        assert [session.run(n) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_each_tower_takes_separate_datapoints():
    source, first = build([[k] for k in range(100)], infinite=False)
    [second] = source.get_input_tensors()
    with running(source) as session:
        taken = [int(n) for _ in range(50) for n in session.run([first, second])]
    assert sorted(taken) == list(range(100))


def test_hooks_cost_a_step_nothing():
    source, _ = build([[0]])
    for hook in source.hooks():
        assert type(hook).before_run is tf.train.SessionRunHook.before_run
        assert type(hook).after_run is tf.train.SessionRunHook.after_run


def test_forgotten_hooks_cause_a_warning(graph, capfd):
    """The queue stays empty then, and ops of a step must not check for it."""
    build(ListFlow(range(3)))
    with tf.train.MonitoredTrainingSession():
        pass
    message = "QueueInput was set up in the graph of this session, but its hooks() were not requested"
    assert capfd.readouterr().err.count(message) == 1


def test_passed_hooks_cause_no_warning(graph, capfd):
    source, _ = build(ListFlow([[0], [1]]))
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()):
        pass
    assert "hooks" not in capfd.readouterr().err


def test_placeholders_leave_the_names_to_the_model(graph):
    build([[0]])
    with pytest.raises(KeyError):
        graph.get_operation_by_name("n")


# Errors


def test_an_error_follows_the_enqueued_datapoints_with_its_traceback():
    source, n = build(ListFlow([[0], [1], [2]], fails_at=2))
    taken = []
    with pytest.raises(FlowFailure, match="datapoint 2 cannot be made") as caught, running(source) as session:
        for _ in range(5):
            taken.append(session.run(n))
    assert taken in ([], [0], [0, 1])
    assert "_pass" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_an_error_that_wakes_a_blocked_step():
    flow = Gated(1)
    source, n = build(flow)
    with pytest.raises(FlowFailure, match="behind the gate"), running(source) as session:
        session.run(n)
        opener = threading.Thread(target=lambda: flow.arrived.wait(20) and flow.gate.set())
        opener.start()
        session.run(n)
    opener.join()


def test_an_error_when_the_loop_ends_right_there():
    flow = Gated(1)
    source, n = build(flow)
    with pytest.raises(FlowFailure, match="behind the gate"), running(source) as session:
        session.run(n)
        assert flow.arrived.wait(20)
        flow.gate.set()


def test_an_error_comes_out_of_an_evaluation_too():
    """Who catches the end of a pass finds an error at the next reset, and in the coordinator."""
    source, n = build(ListFlow([[0]], fails_at=0), infinite=False)
    with pytest.raises(FlowFailure), tf.Session() as session:
        coord = begin(source, session)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(n)
        with pytest.raises(FlowFailure):
            coord.raise_requested_exception()
        try:
            source.reset_state()
        finally:
            for hook in source.hooks():
                hook.end(session)


def test_an_error_in_a_later_round():
    flow = ListFlow([[0], [1]])
    source, n = build(flow, infinite=False)
    with pytest.raises(FlowFailure), running(source) as session:
        assert session.run(n) == 0
        flow.fails_at = 1
        source.reset_state()
        assert session.run(n) == 0
        session.run(n)


def test_the_flow_raises_errors_that_sessions_swallow():
    class Ends:
        def __iter__(self):
            yield [0]
            raise tf.errors.OutOfRangeError(None, None, "not yours")

    source, n = build(Ends())
    with (
        pytest.raises(FlowEndError, match=r"Datapoint 1 .*OutOfRangeError \(not yours\)"),
        running(source) as session,
    ):
        session.run([n])
        session.run([n])


def test_nothing_in_an_infinite_flow():
    source, n = build([])
    with pytest.raises(EmptyFlowError, match="gave no datapoint"), running(source) as session:
        session.run(n)


def test_nothing_in_a_finite_flow_is_a_clean_end():
    source, n = build([], infinite=False)
    with running(source) as session:
        session.run(n)
        pytest.fail("there was nothing to take")


def test_a_datapoint_that_does_not_fit():
    source, n = build([[0], [[1, 2]]])
    with (
        pytest.raises(DatapointShapeError, match=r"Datapoint 1 .*component 0 \('n'\): received shape \(2,\)"),
        running(source) as session,
    ):
        session.run(n)
        session.run(n)


# Ends


@pytest.mark.parametrize("fails", [False, True])
def test_the_loop_ends_while_a_put_waits(fails):
    source, n = build([[0]], capacity=1)
    with pytest.raises(ZeroDivisionError) if fails else running(source) as session:
        if fails:
            with running(source) as session:
                session.run(n)
                raise ZeroDivisionError
        session.run(n)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("towerpack")]


def test_a_queue_that_something_else_closes_ends_the_run():
    queue = tf.queue.FIFOQueue(2, [tf.int32], [[]])
    source, _ = build([[0]], queue=queue)
    close = queue.close(cancel_pending_enqueues=True)
    with running(source) as session:
        session.run(close)
        deadline = time.monotonic() + 20
        while not session.should_stop():
            assert time.monotonic() < deadline


def test_a_session_closed_by_itself_ends_the_threads():
    source, n = build([[0]], capacity=1)
    session = tf.Session()
    coord = begin(source, session)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("towerpack")]
    assert len(threads) == 2
    session.run(n)
    session.close()
    for thread in threads:
        thread.join(20)
    assert coord.should_stop()


def test_two_sessions_one_after_the_other():
    source, n = build([[0], [1]], infinite=False)
    for _ in range(2):
        taken = []
        with running(source) as session:
            while True:
                taken.append(session.run(n))
        assert taken == [0, 1]


# Rounds


def test_reset_needs_the_session():
    source, _ = build([[0]])
    with pytest.raises(NotRunningError, match="needs the live session"):
        source.reset_state()
    with running(source):
        pass
    with pytest.raises(NotRunningError, match="The run is over"):
        source.reset_state()


def test_the_first_reset_keeps_prefetched_datapoints():
    flow = ListFlow([[0], [1]])
    started = []
    flow.__class__ = type(
        "Counted", (ListFlow,), {"__iter__": lambda self: started.append(1) or ListFlow.__iter__(self)}
    )
    source, n = build(flow, infinite=False)
    with running(source) as session:
        source.reset_state()
        assert session.run(n) == 0
        source.reset_state()
        assert session.run(n) == 0
    assert len(started) == 2


def test_reset_of_an_endless_source_with_a_full_queue():
    source, n = build(ListFlow([[0], [1], [2]]), capacity=2)
    with running(source) as session:
        for _ in range(5):
            source.reset_state()
            assert [session.run(n) for _ in range(2)] == [0, 1]


# The position


def test_the_position_is_exact_after_every_step_despite_prefetching():
    flow = ListFlow([[k] for k in range(1000)])
    source, n = build(flow, capacity=3)
    with running(source) as session:
        for step in range(300):
            assert source.state_dict() == {"flow": {"next": step}}
            assert session.run(n) == step


def test_the_position_after_a_failed_run():
    source, n = build(ListFlow([[k] for k in range(100)]), capacity=3)
    with pytest.raises(ZeroDivisionError), running(source) as session:
        session.run(n)
        raise ZeroDivisionError
    assert source.state_dict() == {"flow": {"next": 1}}


def test_the_position_before_a_session_and_without_one():
    assert QueueInput(ListFlow([[0]])).state_dict() == {"flow": {"next": 0}}
    assert QueueInput([[0]]).state_dict() == {"flow": None}
    source = QueueInput(ListFlow([[0]]))
    source.load_state_dict({"flow": {"next": 1}})
    assert source.state_dict() == {"flow": {"next": 1}}


def test_resuming_an_endless_flow_at_the_end_of_a_pass():
    source, n = build(ListFlow([[0], [1]]))
    source.load_state_dict({"flow": {"next": 2}})
    with running(source) as session:
        assert [session.run(n) for _ in range(3)] == [0, 1, 0]


def test_a_session_closed_under_the_source_cannot_tell():
    source, _ = build(ListFlow([[0]]), capacity=1)
    session = tf.Session()
    coord = begin(source, session)
    session.close()
    with pytest.raises(NotRunningError, match="its position is unknown"):
        source.state_dict()
    coord.request_stop()
    coord.join()


# Queues of one's own


def test_a_custom_queue():
    queue = tf.queue.PaddingFIFOQueue(5, [tf.int32], [[]])
    source, n = build(ListFlow([[0], [1]]), queue=queue)
    with running(source) as session:
        assert session.run(n) == 0
        assert source.state_dict() == {"flow": {"next": 1}}


def test_a_queue_that_reorders_has_no_position():
    queue = tf.queue.RandomShuffleQueue(20, 5, [tf.int32], [[]])
    source, n = build(ListFlow([[k] for k in range(10)]), infinite=False, queue=queue)
    taken = []
    with running(source) as session:
        assert source.state_dict() == {"flow": None}
        while True:
            taken.append(int(session.run(n)))
    assert sorted(taken) == list(range(10))


def test_a_queue_that_does_not_fit():
    with pytest.raises(SpecError, match=r"holds \['float32'\], but the specs declare \['int32'\]"):
        build([[0]], queue=tf.queue.FIFOQueue(5, [tf.float32], [[]]))
    with tf.Graph().as_default():
        elsewhere = tf.queue.FIFOQueue(5, [tf.int32], [[]])
    with pytest.raises(SetupError, match="different graph"):
        build([[0]], queue=elsewhere)


def test_capacity_is_checked():
    with pytest.raises(ValueError, match="at least 1; received 0"):
        QueueInput([[0]], capacity=0)


# Memory


def aligned(shape):
    count = int(np.prod(shape)) * 4
    memory = np.zeros(count + 64, "uint8")
    start = -memory.ctypes.data % 64
    return memory[start : start + count].view("float32").reshape(shape)


@pytest.mark.parametrize("shape", [[16], [None]])
def test_one_buffer_for_every_datapoint_corrupts_nothing(shape):
    buffer = aligned([16])

    def fill(k):
        buffer[:] = k
        return [buffer]

    class Reused:
        def __iter__(self):
            return map(fill, range(500))

    source, x = build(Reused(), [tf.TensorSpec(shape, tf.float32, "x")], capacity=20, infinite=False)
    with running(source) as session:
        for k in itertools.count():
            np.testing.assert_array_equal(session.run(x), k)
    assert k == 500


# The statistic


def test_the_size_of_the_queue_is_there_to_be_averaged():
    flow = Gated(3, fails=False)
    source, _ = build(flow)
    [size] = tf.get_collection("MOVING_SUMMARIES")
    assert size.shape.rank == 0
    assert not tf.global_variables() and not tf.trainable_variables()
    with running(source) as session:
        assert flow.arrived.wait(20)
        assert session.run(size) == 3
        flow.gate.set()


def test_the_name_of_the_statistic_does_not_depend_on_the_scope():
    with tf.name_scope("tower0"):
        build([[0]])
    [size] = tf.get_collection("MOVING_SUMMARIES")
    assert size.op.name == "QueueInput/queue_size"


def test_a_full_queue_is_refilled_after_any_takes():
    """The thread rests while a part of a full queue is taken, and no take waits for the rest to end."""
    flow = ListFlow([[k] for k in range(400)])
    source, n = build(flow, capacity=40)
    taken = 0
    with running(source) as session:
        for burst in [1, 9, 10, 11, 40, 39, 1, 40] * 3:
            deadline = time.monotonic() + 20
            while source.status().buffers[0].fill != 40:
                assert time.monotonic() < deadline
            for _ in range(burst):
                assert session.run(n) == taken % 400
                taken += 1


@pytest.mark.parametrize("capacity", [None, 8, 5, 2])
def test_batches_that_come_in_blocks_are_taken_one_by_one(capacity):
    def made():
        flow = BatchData(DataFromArrays({"x": np.arange(120).reshape(40, 3), "n": np.arange(40)}), 4)
        flow.seed(2)
        return flow

    specs = [tf.TensorSpec([None], tf.int32, "n"), tf.TensorSpec([None, 3], tf.int64, "x")]
    single = made()
    expected = [(batch["n"].tolist(), single.state_dict()) for _ in range(3) for batch in single]
    source, n = build(made(), specs, capacity=capacity)
    with running(source) as session:
        for number, (batch, _) in enumerate(expected, 1):
            assert session.run(n).tolist() == batch
            assert source.state_dict()["flow"]["index"] == (number - 1) % 10 + 1
    assert source.state_dict()["flow"] == {**expected[-1][1]}


def test_arrays_without_elements_and_strings_come_one_by_one():
    flow = BatchData(
        DataFromArrays([np.zeros((6, 0), np.float32), np.array(list("abcdef"))], shuffle=False), 2
    )
    specs = [tf.TensorSpec([2, 0], tf.float32, "x"), tf.TensorSpec([2], tf.string, "t")]
    source = QueueInput(flow, infinite=False)
    source.setup(specs)
    _, text = source.get_input_tensors()
    with running(source) as session:
        assert session.run(text).tolist() == [b"a", b"b"]
    with tf.Graph().as_default():
        source, x = build(BatchData(DataFromArrays([np.zeros((6, 0), np.float32)]), 2), specs[:1])
        with running(source) as session:
            assert [session.run(x).shape for _ in range(9)] == [(2, 0)] * 9
