import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_inputsource import (
    BatchQueueInput,
    Buffer,
    FeedInput,
    NotRunningError,
    PlaceholderInput,
    ProxyInputSource,
    QueueInput,
    SetupError,
    StagingError,
    StagingInput,
    TensorInput,
    TFDatasetInput,
    remap_input_source,
)
from towerpack_inputsource.testing import FlowFailure, ListFlow

N = tf.TensorSpec([], tf.int64, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def flow_of(count, **options):
    return ListFlow([[k] for k in range(count)], **options)


def build(inner, towers=1, specs=(N,), **options):
    source = StagingInput(inner, **options)
    source.setup(specs)
    return source, [source.get_input_tensors()[0] for _ in range(towers)]


def running(source, **options):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks(), **options)


INNER = {
    "queue": lambda count: QueueInput(flow_of(count), infinite=False),
    "short queue": lambda count: QueueInput(flow_of(count), capacity=1, infinite=False),
    "dataset": lambda count: TFDatasetInput(lambda: tf2.data.Dataset.range(count), infinite=False),
    "proxy": lambda count: remap_input_source(QueueInput(flow_of(count), infinite=False), ["n"]),
}
each_inner = pytest.mark.parametrize("inner", INNER.values(), ids=INNER)


@each_inner
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("count", "towers"), [(0, 1), (1, 1), (7, 1), (8, 2)])
def test_each_datapoint_comes_exactly_once(inner, stages, count, towers):
    source, tensors = build(inner(count), towers, stages=stages)
    taken = []
    with running(source) as session:
        while True:
            taken.append(session.run(tensors))
    assert sorted(int(n) for step in taken for n in step) == list(range(count))
    assert [sorted(int(n) // towers for n in step) for step in taken] == [
        [step] * towers for step in range(count // towers)
    ], "a step's datapoints belong together"


@pytest.mark.slow
@each_inner
@pytest.mark.parametrize("towers", [1, 2])
def test_the_position_is_that_of_the_step(inner, towers):
    state = None
    seen = []
    for steps in (0, 3, 2, 4):
        with tf.Graph().as_default():
            source, tensors = build(inner(40), towers, stages=2)
            if state is not None:
                source.load_state_dict(state)
            with running(source) as session:
                for _ in range(steps):
                    seen += sorted(int(n) for n in session.run(tensors))
                state = source.state_dict()
            assert "iterator" in state or source.state_dict() == state
    assert seen == list(range(9 * towers))


@each_inner
def test_evaluation_rounds(inner):
    source, [n] = build(inner(5))
    with running(source) as session:
        for steps in (6, 1, 0, 6, 2):
            source.reset_state()
            taken = []
            try:
                for _ in range(steps):
                    taken.append(int(session.run(n)))
            except tf.errors.OutOfRangeError:
                assert steps == 6
            assert taken == list(range(min(steps, 5)))


def test_a_round_after_a_resumed_session_starts_at_the_beginning():
    source, [n] = build(QueueInput(flow_of(5), infinite=False))
    source.load_state_dict({"flow": {"next": 3}})
    with running(source) as session:
        source.reset_state()
        assert session.run(n) == 0


def test_native_ops_run_ahead_under_each_tower():
    steps = tf.Variable(tf.zeros([], tf.int64), use_resource=True)
    inner = TensorInput(lambda: [steps.assign_add(1)], size=3, infinite=False)
    source, [n] = build(inner)
    assert source.size() == 3
    with running(source) as session:
        assert [int(session.run(n)) for _ in range(3)] == [1, 2, 3]


def test_batches_and_strings():
    inner = BatchQueueInput([{"n": k, "s": str(k)} for k in range(3)], 2, infinite=False)
    source = StagingInput(inner)
    source.setup([tf.TensorSpec([None], tf.string, "s"), tf.TensorSpec([None], tf.int64, "n")])
    s, n = source.get_input_tensors()
    assert s.shape.as_list() == n.shape.as_list() == [None] and n.op.name == "StagingInput_1/n"
    with running(source) as session:
        assert [value.tolist() for value in session.run([s, n])] == [[b"0", b"1"], [0, 1]]
        assert [value.tolist() for value in session.run([s, n])] == [[b"2"], [2]]


def test_on_the_devices_of_the_towers():
    source = StagingInput(QueueInput(flow_of(10)))
    source.setup([N])
    tensors = []
    for device in ("/cpu:0", "/cpu:1"):
        with tf.device(device):
            tensors.append(source.get_input_tensors()[0])
    assert [tensor.device for tensor in tensors] == ["/device:CPU:0", "/device:CPU:1"]
    areas = [op.device for op in tf.get_default_graph().get_operations() if op.type == "Stage"]
    assert areas == ["/device:CPU:0", "/device:CPU:1"]
    config = tf.ConfigProto(device_count={"CPU": 2})
    with running(source, config=config) as session:
        for step in range(4):
            assert sorted(session.run(tensors)) == [2 * step, 2 * step + 1]


def test_on_a_separate_device():
    build(QueueInput(flow_of(1)), device="/cpu:1")
    [area] = [op.device for op in tf.get_default_graph().get_operations() if op.type == "Stage"]
    assert area == "/device:CPU:1"


# Its rules


def test_a_run_that_needs_only_some_towers_makes_the_next_one_fail():
    source, tensors = build(QueueInput(flow_of(100)), towers=2)
    # Either the run detects it, or the thread that stages the next round.
    with (
        pytest.raises((tf.errors.InvalidArgumentError, StagingError), match=r"all towers or of none"),
        running(source) as session,
    ):
        session.run(tensors)
        session.run(tensors[0])
        session.run(tensors)


@pytest.mark.parametrize("used", [0, 1])
def test_runs_that_repeatedly_use_only_some_towers_fail(used):
    source, tensors = build(QueueInput(flow_of(100)), towers=2)
    with (
        pytest.raises(StagingError, match=rf"the towers \[{1 - used}\] \(from 0\) was skipped"),
        running(source) as session,
    ):
        for _ in range(20):
            session.run(tensors[used])


def test_runs_that_need_no_input_disturb_nothing():
    source, tensors = build(QueueInput(flow_of(100)), towers=2)
    other = tf.constant(1)
    with running(source) as session:
        for step in range(5):
            session.run(other)
            assert sorted(session.run(tensors)) == [2 * step, 2 * step + 1]


def test_sources_that_cannot_be_staged():
    with pytest.raises(TypeError, match="wraps an InputSource"):
        StagingInput(flow_of(1))
    with pytest.raises(ValueError, match="at least 1; received 0"):
        StagingInput(QueueInput([[1]]), stages=0)
    with pytest.raises(SetupError, match="already stages"):
        StagingInput(ProxyInputSource(StagingInput(QueueInput([[1]]))))
    for inner in (FeedInput([[1]]), PlaceholderInput(), remap_input_source(QueueInput([[1]]), ["m"])):
        specs = [N, tf.TensorSpec([], tf.int64, "m")] if inner.feed_free else [N]
        with tf.Graph().as_default(), pytest.raises(SetupError, match="needs feeds in each step"):
            StagingInput(inner).setup(specs)


def test_reset_needs_the_session():
    source, _ = build(QueueInput([[1]]))
    with pytest.raises(NotRunningError, match="needs the live session"):
        source.reset_state()


# Ends and errors


def test_hooks_cost_a_step_nothing():
    source, _ = build(QueueInput([[1]]))
    for hook in source.hooks():
        assert type(hook).before_run is tf.train.SessionRunHook.before_run
        assert type(hook).after_run is tf.train.SessionRunHook.after_run


@pytest.mark.parametrize("stages", [1, 4])
def test_an_error_in_the_flow_arrives_as_it_is(stages):
    source, [n] = build(QueueInput(flow_of(9, fails_at=3)), stages=stages)
    taken = []
    with pytest.raises(FlowFailure, match="datapoint 3 cannot be made"), running(source) as session:
        for _ in range(9):
            taken.append(int(session.run(n)))
    assert taken == list(range(len(taken))) and len(taken) <= 3


def test_an_error_in_the_graph_arrives_as_it_is():
    dataset = tf2.data.Dataset.range(3).map(lambda n: tf2.debugging.check_numerics(1 / (2 - n), "broken"))
    source, [n] = build(TFDatasetInput(dataset), specs=[tf.TensorSpec([], tf.float64, "n")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken"), running(source) as session:
        for _ in range(9):
            session.run(n)


@pytest.mark.parametrize("infinite", [True, False])
def test_an_error_in_the_loop_ends_everything(infinite):
    source, [n] = build(QueueInput(flow_of(100), infinite=infinite))
    with pytest.raises(ZeroDivisionError), running(source) as session:
        session.run(n)
        raise ZeroDivisionError
    assert source.state_dict() == {"flow": {"next": 1}}


@pytest.mark.slow
@pytest.mark.parametrize("inner", [INNER["queue"], INNER["dataset"]], ids=["queue", "dataset"])
def test_the_position_while_the_source_is_being_taken_from(inner):
    """The thread takes all the time: each state must be the same as that of a source that stands still."""
    source, [n] = build(inner(400), stages=2)
    states = []
    with running(source) as session:
        for _ in range(60):
            session.run(n)
            states.append(source.state_dict())
    for step in (0, 17, 59):
        with tf.Graph().as_default():
            again, [n] = build(inner(400))
            again.load_state_dict(states[step])
            with running(again) as session:
                assert session.run(n) == step + 1


def test_positions_are_read_while_no_take_is_active():
    seen = []

    class Asked(ProxyInputSource):
        def _state(self, takes, paused):
            seen.append(source._reader._between_rounds.locked())
            with paused:
                seen.append(source._reader._between_rounds.acquire(blocking=False))
            return {}

    source, [n] = build(Asked(QueueInput([[0]], capacity=1)))
    with running(source) as session:
        session.run(n)
        source.state_dict()
    assert seen[1] is False, "a round could have been taken meanwhile"


def test_a_source_that_never_comes_back_cannot_tell_its_position(monkeypatch):
    monkeypatch.setattr("towerpack_inputsource._staging_input._PAUSE_SECONDS", 0.01)
    source, [n] = build(TFDatasetInput(lambda: tf.data.Dataset.range(3), infinite=False))
    with running(source) as session:
        session.run(n)
        with (
            source._reader._between_rounds,
            pytest.raises(NotRunningError, match=r"has been busy .* for 0.01 s"),
        ):
            source.state_dict()


def test_the_loop_ends_while_the_flow_is_busy():
    gate, arrived = threading.Event(), threading.Event()

    class Slow:
        def __iter__(self):
            yield [0]
            arrived.set()
            assert gate.wait(20)
            yield [1]

    source, [n] = build(QueueInput(Slow(), infinite=False))
    with running(source) as session:
        assert session.run(n) == 0
        assert arrived.wait(20)
        opener = threading.Timer(0.05, gate.set)
        opener.start()
    opener.join()


def test_a_session_closed_by_itself_ends_the_threads():
    source, [n] = build(QueueInput(flow_of(5)))
    session, coord = tf.Session(), tf.train.Coordinator()
    session.run(tf.local_variables_initializer())
    for hook in source.hooks():
        hook.begin()
    for hook in source.hooks():
        hook.after_create_session(session, coord)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("towerpack")]
    assert len(threads) == 4
    session.run(n)
    session.close()
    for thread in threads:
        thread.join(20)
    assert coord.should_stop()


def test_where_it_stands():
    source, [n] = build(QueueInput(flow_of(2), infinite=False), stages=3)
    assert source.status().source == "StagingInput of QueueInput"
    with running(source) as session:
        session.run(n)
        status = source.status()
        assert [buffer.name for buffer in status.buffers] == ["queue", "staging"]
        assert [thread.name for thread in status.threads] == ["towerpack-queue", "towerpack-staging"]
    assert source.status().buffers[1] == Buffer("staging", None, 3)
    assert np.all([thread.doing == "ended" for thread in source.status().threads])


def test_a_dataset_that_blocks_does_not_hold_up_the_end_of_the_source(monkeypatch, caplog):
    """Neither its element nor its position can be waited for: tf.data answers nothing meanwhile."""
    monkeypatch.setattr("towerpack_inputsource.prefetch._session_thread._GRACE_SECONDS", 0.2)
    arrived, gate = threading.Event(), threading.Event()

    def elements():
        yield 0
        arrived.set()
        gate.wait(60)

    def dataset():
        return tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec([], tf.int64))

    source = StagingInput(TFDatasetInput(dataset, infinite=False))
    source.setup([N])
    [n] = source.get_input_tensors()
    coord = tf.train.Coordinator()
    with tf.Session() as session:  # TensorFlow's own close() may wait for the element
        for hook in source.hooks():
            hook.after_create_session(session, coord)
        session.run(n)
        assert arrived.wait(20)
        while source.status().threads[-1].doing != "flow":
            assert threading.Event().wait(0.001) is False
        for hook in source.hooks():
            hook.end(session)
        ended_without_the_element = not gate.is_set()
        gate.set()
        for thread in threading.enumerate():
            if thread.name.startswith("towerpack"):
                thread.join(20)
    assert ended_without_the_element
    busy = [record.getMessage() for record in caplog.records if " busy " in record.getMessage()]
    assert len(busy) == 1 and busy[0].startswith("The TFDatasetInput is still busy")
    with pytest.raises(NotRunningError, match="position is unknown"):
        source.state_dict()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("failed", [False, True], ids=["in good order", "by an error"])
@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_a_session_is_left_while_a_dataset_blocks(monkeypatch, given, failed):
    """The thread may wait for an element, or hold one while tf.data itself prefetches the next."""
    for module in ("prefetch._session_thread", "in_graph._tfdata_input"):
        monkeypatch.setattr(f"towerpack_inputsource.{module}._GRACE_SECONDS", 0.2)
    monkeypatch.setattr("towerpack_inputsource.prefetch._one_session._CLOSE_SECONDS", 0.2)
    gate = threading.Event()

    def elements():
        yield from range(given + 1)
        gate.wait(60)

    def dataset():
        return tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec([], tf.int64))

    source, [n] = build(TFDatasetInput(dataset, infinite=False))
    with pytest.raises(LookupError) if failed else contextlib.nullcontext(), running(source) as session:
        assert session.run(n) == 0
        while source.status().threads[-1].doing != ("put" if given > 1 else "flow"):
            assert threading.Event().wait(0.001) is False
        if failed:
            raise LookupError
    left_without_the_element = not gate.is_set()
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("towerpack"):
            thread.join(20)
    assert left_without_the_element
