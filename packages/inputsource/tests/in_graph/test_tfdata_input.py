import contextlib
import functools
import json

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_dataflow import DataFromList
from towerpack_inputsource import EmptyFlowError, NotRunningError, SetupError, SpecError, TFDatasetInput

N = tf.TensorSpec([], tf.int64, "n")


def eager():
    return (
        tf2.data.Dataset.range(10).shuffle(4, seed=3).map(lambda n: 2 * n, num_parallel_calls=2).prefetch(2)
    )


def in_graph():
    return tf.data.Dataset.range(10).shuffle(4).repeat()


def generated():
    signature = tf2.TensorSpec([], tf.int64)
    return tf2.data.Dataset.from_generator(lambda: iter(range(10)), output_signature=signature)


SAVED, READ_AGAIN = eager(), generated()


def build(dataset, specs=(N,), **options):
    source = TFDatasetInput(dataset, **options)
    source.setup(specs)
    return source, source.get_input_tensors()


def running(source):
    return tf.train.MonitoredTrainingSession(hooks=source.hooks())


def run(dataset, steps, state=None, **options):
    """Runs some steps in a separate graph; returns the datapoints and the final state."""
    with tf.Graph().as_default():
        source, [n] = build(dataset, **options)
        if state is not None:
            source.load_state_dict(json.loads(json.dumps(state)))
        seen = []
        with running(source) as session:
            for _ in range(steps):
                seen.append(int(session.run(n)))
            inside = source.state_dict()
        # As text they differ, due to prefetching; the kit resumes from both.
        assert source.state_dict()["skip"] == inside["skip"]
        return seen, inside


@functools.cache
def whole(dataset):
    return run(dataset, 20)[0]


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("dataset", [eager(), eager, tf.data.Dataset.range(3)], ids=["eager", "made", "v1"])
def test_datasets_of_every_making(dataset):
    seen, _ = run(dataset, 12)
    assert len(set(seen[:3])) == 3 and seen[:2] != seen[10:]


def test_one_made_in_the_graph(graph):
    source, [n] = build(tf.data.Dataset.range(3), infinite=False)
    with running(source) as session:
        assert [int(session.run(n)) for _ in range(3)] == [0, 1, 2]


def test_one_made_in_another_graph_is_refused():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
    with tf.Graph().as_default(), pytest.raises(SetupError, match=r"created in a different graph.*lambda"):
        build(dataset)


def test_captured_resources_of_an_eager_dataset_need_the_function():
    def keyed():
        keys = tf2.lookup.KeyValueTensorInitializer(np.arange(3), np.arange(5, 8))
        table = tf2.lookup.StaticHashTable(keys, -1)
        return tf2.data.Dataset.range(3).map(table.lookup)

    assert run(keyed, 4)[0] == [5, 6, 7, 5]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 3, 10, 14])
@pytest.mark.parametrize("dataset", [SAVED, READ_AGAIN], ids=["saved", "read again"])
def test_a_resumed_run_equals_the_uninterrupted_one(dataset, steps):
    before, state = run(dataset, steps)
    rest, _ = run(dataset, 20 - steps, state)
    assert before + rest == whole(dataset)
    assert state["skip"] == (0 if dataset is SAVED or steps == 0 else steps)


def test_a_shuffle_without_a_seed_resumes_exactly():
    before, state = run(in_graph, 13)
    rest, _ = run(in_graph, 7, state)
    assert sorted(before[10:] + rest) == list(range(10))


def test_a_finite_pass_to_its_end_and_nothing_after_it():
    whole, state = run(eager(), 10, infinite=False)
    assert sorted(whole) == list(range(0, 20, 2))
    with tf.Graph().as_default():
        source, [n] = build(eager(), infinite=False)
        source.load_state_dict(state)
        with running(source) as session:
            session.run(n)
            pytest.fail("the pass had ended")


@pytest.mark.slow
def test_a_position_after_the_taken_datapoints(graph):
    """The positions that a prefetching source requests; the iterator itself cannot move back."""
    source, [n] = build(eager)
    with running(source) as session:
        seen = []
        for _ in range(3):
            seen += [int(session.run(n)) for _ in range(4)]
            state = source._state(len(seen) - 2)
            assert state["skip"] <= 4
            rest, _ = run(eager, 6, state)
            assert rest[:2] == seen[-2:]


def test_who_takes_ahead_is_paused_while_the_position_is_saved(graph):
    source, [n] = build(SAVED)

    @contextlib.contextmanager
    def paused():
        session.run(n)  # the last dequeue before the pause
        yield

    with running(source) as session:
        session.run(n)
        state = source._state(2, paused())
    assert state["skip"] == 0 and run(SAVED, 18, state)[0] == whole(SAVED)[2:]


def test_evaluation_rounds(graph):
    source, [n] = build(tf2.data.Dataset.range(3), infinite=False)
    with running(source) as session:
        for steps in (3, 1, 3):
            source.reset_state()
            assert [int(session.run(n)) for _ in range(steps)] == list(range(steps))
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(n)


def test_towers_share_the_iterator(graph):
    source, [first] = build(tf2.data.Dataset.range(8), infinite=False)
    [second] = source.get_input_tensors()
    with running(source) as session:
        taken = [int(n) for _ in range(4) for n in session.run([first, second])]
    assert sorted(taken) == list(range(8))


def test_dicts_by_name_and_two_sources_in_one_graph(graph):
    data = tf2.data.Dataset.from_tensor_slices({"x": np.ones([4, 2], "float32"), "n": np.arange(4)}).batch(2)
    specs = [tf.TensorSpec([None], tf.int64, "n"), tf.TensorSpec([None, 2], tf.float32, "x")]
    source, [n, x] = build(data, specs)
    other, [m, _] = build(data.skip(1), specs)
    assert x.shape.as_list() == [None, 2] and x.device == "/device:CPU:0"
    with tf.train.MonitoredTrainingSession(hooks=source.hooks() + other.hooks()) as session:
        values = session.run([n, x, m])
    assert [value.tolist() for value in values] == [[0, 1], [[1, 1], [1, 1]], [2, 3]]


def test_a_single_component_needs_no_tuple(graph):
    _, [x] = build(tf2.data.Dataset.from_tensors(np.zeros(3)), [tf.TensorSpec([3], tf.float64, "x")])
    assert x.shape.as_list() == [3]


@pytest.mark.parametrize(
    ("element", "specs", "message"),
    [
        ((1, 2), [N], r"The dataset gives 2 components, but the specs declare 1: \['n'\]"),
        ({"m": 1}, [N], r"gives a dict with the keys \['m'\], but the specs declare \['n'\]"),
        (np.int32(1), [N], "gives 'n' as int32, but the spec declares int64. Cast it there"),
        (np.zeros(2, "int64"), [N], r"gives 'n' with the shape \(2,\), but the spec declares \(\)"),
        (((1, 2),), [N], "the component for 'n' is not a single dense tensor"),
        ({"n": tf2.sparse.from_dense([1])}, [N], "the component for 'n' is not a single dense tensor"),
    ],
)
def test_mismatches_are_named(element, specs, message):
    dataset = tf2.data.Dataset.from_tensors(element)
    with tf.Graph().as_default(), pytest.raises(SpecError, match=message):
        build(dataset, specs)


def test_shapes_that_are_known_too_late_are_checked_then(graph):
    dataset = tf2.data.Dataset.range(3).batch(2)
    source, [n] = build(dataset, [tf.TensorSpec([2], tf.int64, "n")], infinite=False)
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1\].*\[2\]"),
        running(source) as session,
    ):
        session.run(n)
        session.run(n)


@pytest.mark.parametrize(
    ("dataset", "options", "size"),
    [
        (tf2.data.Dataset.range(7), {}, 7),
        (generated(), {}, None),
        (generated(), {"size": 10}, 10),
        (lambda: tf.data.Dataset.range(7), {}, None),
        (tf2.data.Dataset.range(7).repeat(), {}, None),
    ],
)
def test_sizes(graph, dataset, options, size):
    source, _ = build(dataset, **options)
    assert source.size() == size


def test_nothing_to_repeat():
    dataset = tf2.data.Dataset.range(0)
    with tf.Graph().as_default(), pytest.raises(EmptyFlowError, match="has no element"):
        build(dataset)


def test_an_error_in_the_dataset_arrives(graph):
    dataset = tf2.data.Dataset.range(3).map(lambda n: tf2.debugging.check_numerics(1 / n, "broken"))
    source, [n] = build(dataset, [tf.TensorSpec([], tf.float64, "n")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken"), running(source) as session:
        session.run(n)


def test_states_and_sessions(graph):
    source, [n] = build(eager())
    assert source.state_dict() == {"iterator": None, "skip": 0}
    with pytest.raises(ValueError, match=r"state with \['flow'\], but TFDatasetInput saves"):
        source.load_state_dict({"flow": None})
    with pytest.raises(NotRunningError, match="needs the live session"):
        source.reset_state()
    with pytest.raises(ZeroDivisionError), running(source) as session:
        session.run(n)
        raise ZeroDivisionError
    with pytest.raises(NotRunningError, match="its position is unknown"):
        source.state_dict()


def test_wrong_arguments(graph):
    with pytest.raises(TypeError, match=r"received \[1\].*QueueInput"):
        TFDatasetInput([1])
    with pytest.raises(TypeError, match=r"must return a tf\.data\.Dataset, but returned 3"):
        TFDatasetInput(lambda: 3).setup([N])


@pytest.mark.parametrize("datapoint", [lambda k: [k, 0.5], lambda k: (k, 0.5), lambda k: {"n": k, "x": 0.5}])
def test_a_dataset_of_a_flow(datapoint, graph):
    flow = DataFromList([datapoint(k) for k in range(6)], shuffle=False)
    types = [tf.TensorSpec([], tf.int64), tf.float32]
    if isinstance(datapoint(0), dict):
        types = dict(zip(["n", "x"], types))

    def make():
        return TFDatasetInput.dataflow_to_dataset(flow, types).map(
            lambda *parts: parts[0]["n"] if len(parts) == 1 else parts[0]
        )

    source, [n] = build(make)
    with running(source) as session:
        assert [int(session.run(n)) for _ in range(8)] == [0, 1, 2, 3, 4, 5, 0, 1]


def test_a_dataset_of_a_flow_resumes_by_reading_again():
    def dataset():
        flow = DataFromList([[k] for k in range(10)])
        flow.seed(1)
        return TFDatasetInput.dataflow_to_dataset(flow, [tf.TensorSpec([], tf.int64)]).map(lambda n: n)

    whole, _ = run(dataset, 15)
    _, state = run(dataset, 6)
    assert run(dataset, 9, state)[0] == whole[6:]


@pytest.mark.parametrize("names", [False, True])
def test_a_flow_may_reuse_memory_that_tensorflow_would_share(names):
    class Reusing:
        def __iter__(self):
            memory = np.zeros(128, np.uint8)
            begin = -memory.ctypes.data % 64
            number = memory[begin : begin + 8].view(np.int64)
            for number[:] in range(4):
                yield {"n": number} if names else [number]

    spec = tf.TensorSpec([1], tf.int64)
    dataset = TFDatasetInput.dataflow_to_dataset(Reusing(), {"n": spec} if names else [spec])
    [batch] = dataset.batch(4)
    assert (batch["n"] if names else batch[0]).numpy().tolist() == [[0], [1], [2], [3]]


@pytest.mark.parametrize("types", [tf.int64, "int64", None])
def test_the_types_of_a_flow_are_a_list_or_a_dict(types):
    with pytest.raises(
        TypeError, match=r"takes a dtype or a tf.TensorSpec for each component, in a list or a dict"
    ):
        TFDatasetInput.dataflow_to_dataset([[1]], types)
