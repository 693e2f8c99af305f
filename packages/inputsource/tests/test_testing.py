"""All sources pass the conformance kit, and the kit detects violations."""

import threading

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_inputsource import (
    BatchQueueInput,
    DummyConstantInput,
    FeedInput,
    InputSource,
    PlaceholderInput,
    ProxyInputSource,
    QueueInput,
    StagingInput,
    TensorInput,
    TFDatasetInput,
    remap_input_source,
)
from towerpack_inputsource.testing import check_input_source

SPECS = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([], tf.int32, "label")]
DATAPOINTS = [[np.full([k + 1, 2], k, "float32"), k] for k in range(3)]


class Singles:
    """The datapoints of batches of two, one by one, with a position at every batch."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return 2 * len(self.batches)

    def __iter__(self):
        for batch in self.batches:
            yield [component[0] for component in batch]
            yield [component[1] for component in batch]

    def state_dict(self):
        return self.batches.state_dict()

    def load_state_dict(self, state):
        self.batches.load_state_dict(state)


def dataset(flow):
    signature = tuple(SPECS)
    return tf2.data.Dataset.from_generator(lambda: map(tuple, flow), output_signature=signature)


def by_name(flow):
    return remap_input_source(QueueInput(flow, infinite=False), ["image", "label"])


READERS = {
    "feed": lambda flow: FeedInput(flow, infinite=False),
    "queue": lambda flow: QueueInput(flow, infinite=False),
    "queue of one": lambda flow: QueueInput(flow, capacity=1, infinite=False),
    "proxy": lambda flow: ProxyInputSource(by_name(flow)),
    "staged": lambda flow: StagingInput(by_name(flow), stages=2),
}


with_or_without_stage = pytest.mark.parametrize(
    "stage",
    [
        pytest.param(lambda source: source, id="plain"),
        pytest.param(StagingInput, id="staged", marks=pytest.mark.long),
    ],
)


@pytest.mark.slow
@pytest.mark.parametrize("make_source", READERS.values(), ids=READERS)
def test_sources_that_read_a_flow(make_source):
    check_input_source(make_source, SPECS, DATAPOINTS)


@pytest.mark.slow
@with_or_without_stage
def test_batches_taken_from_a_queue(stage):
    specs = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
    batches = [[np.full([2, 2], k, "float32"), np.array([k, k + 1], "int32")] for k in range(3)]
    check_input_source(lambda flow: stage(BatchQueueInput(Singles(flow), 2, infinite=False)), specs, batches)


@pytest.mark.slow
@with_or_without_stage
def test_datasets(stage):
    """An error of a flow inside of tf.data has TensorFlow's wording."""
    check_input_source(
        lambda flow: stage(TFDatasetInput(lambda: dataset(flow), infinite=False)),
        SPECS,
        DATAPOINTS,
        flow_error=tf.errors.UnknownError,
    )


def tensors():
    return {"label": tf.constant(1), "image": tf.ones([3, 2])}


@pytest.mark.parametrize(
    "make_source",
    [
        lambda flow: PlaceholderInput(),
        lambda flow: DummyConstantInput([(3, 2), ()]),
        lambda flow: TensorInput(tensors),
        lambda flow: TensorInput(tensors, size=2, infinite=False),
        lambda flow: StagingInput(TensorInput(tensors)),
    ],
)
def test_sources_that_read_none(make_source):
    check_input_source(make_source, SPECS)


class Broken(InputSource):
    """A FeedInput with a fault."""

    def __init__(self, flow):
        self.inner = FeedInput(flow, infinite=False)

    def _setup(self, specs):
        self.inner.setup(specs)

    def _get_input_tensors(self, specs):
        return self.inner.get_input_tensors()

    def _hooks(self):
        return self.inner.hooks()


class Shuffled(Broken):
    def _get_input_tensors(self, specs):
        return super()._get_input_tensors(specs)[::-1]


class LeavesThread(Broken):
    stop = threading.Event()

    def _hooks(self):
        self.stop.clear()
        threading.Thread(target=self.stop.wait, name="left-behind", daemon=True).start()
        return super()._hooks()


@pytest.mark.parametrize(
    ("make_source", "broken"),
    [
        (Shuffled, "does not have the declared dtype"),
        (LeavesThread, r"threads \['left-behind'.*are still running"),
        (Broken, r"round 1 after reset_state\(\) must give"),
        (
            lambda flow: FeedInput(list(flow) or [[None]], infinite=False),
            r"the state after 1 steps, read in the session must give",
        ),
        (lambda flow: FeedInput(flow), r"a finite pass must give"),
    ],
)
def test_the_kit_notices(make_source, broken, request):
    request.addfinalizer(LeavesThread.stop.set)
    with pytest.raises(AssertionError, match=broken):
        check_input_source(make_source, SPECS, DATAPOINTS)
