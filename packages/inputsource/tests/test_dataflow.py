"""The sources over real flows."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towerpack_dataflow as df
from towerpack_inputsource import (
    BatchQueueInput,
    DatapointShapeError,
    EmptyFlowError,
    FeedInput,
    QueueInput,
    StagingInput,
    input_for,
)
from towerpack_inputsource.testing import check_input_source

SPECS = [tf.TensorSpec([None, 3], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
SOURCES = {"feed": FeedInput, "queue": QueueInput}
each_source = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


def shuffled_batches(seed=7):
    flow = df.BatchData(df.DataFromList([[np.full(3, k, "float32"), np.int32(k)] for k in range(10)]), 2)
    flow.seed(seed)
    return flow


def labels(make, steps, state=None, flow=None):
    """Runs some steps in a separate graph; returns the labels and the final state."""
    with tf.Graph().as_default():
        source = make(shuffled_batches() if flow is None else flow)
        if state is not None:
            source.load_state_dict(state)
        source.setup(SPECS)
        _, label = source.get_input_tensors()
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            seen = [session.run(label).tolist() for _ in range(steps)]
            return seen, source.state_dict()


@each_source
@pytest.mark.parametrize("steps", [0, 3, 5, 7])
def test_a_resumed_run_equals_the_uninterrupted_one(make, steps):
    whole, _ = labels(make, 13)
    _, state = labels(make, steps)
    rest, _ = labels(make, 13 - steps, state)
    assert rest == whole[steps:]


def test_both_sources_give_the_same_and_their_states_are_exchangeable():
    whole, state = labels(QueueInput, 8)
    assert (whole, state) == labels(FeedInput, 8)


@each_source
def test_every_pass_has_another_order(make):
    seen, _ = labels(make, 10)
    first, second = np.concatenate(seen[:5]).tolist(), np.concatenate(seen[5:]).tolist()
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


@each_source
def test_an_error_in_a_mapping_passes_through(make):
    def fail(image):
        raise KeyError("no such file")

    with pytest.raises(KeyError, match="no such file") as caught:
        labels(make, 3, flow=df.MapDataComponent(shuffled_batches(), fail, 0))
    assert any("Datapoint 0" in note for note in caught.value.__notes__)


@each_source
def test_an_empty_flow_is_the_error_that_flows_raise(make):
    with pytest.raises(df.EmptyFlowError) as caught:
        labels(make, 1, flow=df.DataFromList([]))
    assert isinstance(caught.value, (EmptyFlowError, ValueError))


@pytest.mark.slow
@each_source
def test_conformance_over_a_stream(make):
    points = [[np.full([2, 3], k, "float32"), np.full(2, k, "int32")] for k in range(3)]
    check_input_source(lambda flow: make(df.DataFromIterable(flow), infinite=False), SPECS, points)


def shapes(source, specs=SPECS):
    with tf.Graph().as_default():
        source.setup(specs)
        return [tensor.shape.as_list() for tensor in source.get_input_tensors()]


@pytest.mark.parametrize(
    "around",
    [QueueInput, lambda flow: StagingInput(QueueInput(flow)), input_for],
    ids=["queue", "staged", "chosen"],
)
def test_batches_of_one_size_make_a_graph_for_that_size(around):
    assert shapes(around(shuffled_batches())) == [[2, 3], [2]]
    assert shapes(around(df.BatchData(shuffled_batches().ds, 2, remainder=True))) == [[None, 3], [None]]


def test_so_does_a_queue_that_batches():
    examples = [[np.zeros(3, "float32"), np.int32(0)]] * 5
    assert shapes(BatchQueueInput(examples, 2)) == [[2, 3], [2]]
    assert shapes(BatchQueueInput(examples, 2, infinite=False)) == [[None, 3], [None]]


def test_fed_arrays_may_have_any_size():
    assert shapes(FeedInput(shuffled_batches())) == [[None, 3], [None]]


def test_only_an_unknown_first_axis_is_filled_in():
    specs = [tf.TensorSpec(None, tf.float32, "any"), tf.TensorSpec([4, None], tf.float32, "other")]
    with tf.Graph().as_default():
        source = QueueInput(shuffled_batches())
        source.setup(specs)
        any_shape, other = source.get_input_tensors()
    assert any_shape.shape.rank is None
    assert other.shape.as_list() == [4, None]


def test_a_wrong_batch_size_of_a_flow_is_logged():
    class Wrong(df.ProxyDataFlow):
        fixed_batch_size = 3

    with pytest.raises(DatapointShapeError, match=r"\(2, 3\)"):
        labels(QueueInput, 1, flow=Wrong(shuffled_batches()))
