"""A source serves one live session, and a flow is read by one source at a time."""

import contextlib
import copy
import pickle
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import (
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    ProxyDataFlow,
    RNGDataFlow,
)
from towerpack_inputsource import (
    BatchQueueInput,
    FeedInput,
    ProxyInputSource,
    QueueInput,
    SetupError,
    StagingInput,
    TensorInput,
    TFDatasetInput,
)

ONE = [tf.TensorSpec([], tf.int64, "n")]
MANY = [tf.TensorSpec([None], tf.int64, "n")]


class Noise(RNGDataFlow):
    """A stream with a separate generator."""

    def __iter__(self):
        while True:
            yield [np.int64(self.rng.integers(10))]


class Passing(ProxyDataFlow):
    """A stream over another flow."""

    def __iter__(self):
        yield from self.ds


def numbers():
    return DataFromList([[np.int64(k)] for k in range(10)])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def built(source, specs=ONE):
    source.setup(specs)
    source.get_input_tensors()
    return source


def running(*sources):
    return tf.train.MonitoredTrainingSession(hooks=[hook for source in sources for hook in source.hooks()])


@contextlib.contextmanager
def refused(match):
    """The session is refused, and its started parts end."""
    before = threading.enumerate()
    with pytest.raises(SetupError, match=match):
        yield
    for thread in set(threading.enumerate()).difference(before):
        thread.join(20)


@pytest.mark.parametrize(
    ("make", "specs", "names"),
    [
        (lambda flow: (QueueInput(flow), QueueInput(flow)), ONE, "QueueInput.*QueueInput"),
        (lambda flow: (QueueInput(flow), FeedInput(flow)), ONE, "QueueInput.*FeedInput"),
        (lambda flow: (FeedInput(flow), QueueInput(flow)), ONE, "FeedInput.*QueueInput"),
        (lambda flow: (BatchQueueInput(flow, 2), BatchQueueInput(flow, 2)), MANY, "BatchQ.*BatchQueueInput"),
        (lambda flow: (StagingInput(QueueInput(flow)), FeedInput(flow)), ONE, "QueueInput.*FeedInput"),
        (lambda flow: (ProxyInputSource(QueueInput(flow)), QueueInput(flow)), ONE, "QueueInput.*QueueInput"),
    ],
)
def test_two_sources_over_one_flow_are_refused(make, specs, names):
    sources = [built(source, specs) for source in make(numbers())]
    with refused(f"DataFromList.* is already read by {names} cannot read it.*create a separate flow"):
        running(*sources)


def test_a_stream_below_two_flows_is_refused():
    noise = Noise()
    sources = [built(QueueInput(MapData(noise, list))), built(FeedInput(Passing(noise)))]
    with refused(r"Noise.* is already read by QueueInput, so FeedInput"):
        running(*sources)


def test_a_stream_in_a_list_of_flows_is_found():
    class Either(RNGDataFlow):
        def __init__(self, *flows):
            self.flows = list(flows)

        def __iter__(self):
            yield from self.flows[0]

    noise = Noise()
    sources = [built(QueueInput(Either(numbers(), noise))), built(QueueInput(Either(noise)))]
    with refused(r"Noise.* is already read by QueueInput"):
        running(*sources)


class Named(RNGDataFlow):
    """A stream over a flow that it holds in a dict."""

    def __init__(self, flow):
        self.flows = {"only": flow}

    def __iter__(self):
        yield from self.flows["only"]


@pytest.mark.parametrize(
    "over",
    [
        Named,
        lambda flow: MultiProcessRunner(flow, 0),
        lambda flow: MultiProcessRunner(flow, 1, start_method="thread"),
        lambda flow: MultiProcessMapData(flow, 1, list),
    ],
    ids=["in a dict", "without workers", "in a thread", "below a map"],
)
def test_a_stream_that_this_process_reads_is_found(over):
    noise = Noise()
    flows = [over(noise), over(noise)]
    sources = [built(QueueInput(flow)) for flow in flows]
    with refused(r"Noise.* is already read by QueueInput"), contextlib.ExitStack() as workers:
        for flow in flows:
            workers.callback(getattr(flow, "close", bool))
        running(*sources)


def test_datapoints_of_an_addressable_flow_may_be_shared():
    below = numbers()
    sources = [built(QueueInput(MapData(below, list))), built(QueueInput(MapData(below, list)))]
    with running(*sources):
        pass


def test_lists_may_be_shared():
    data = [[1], [2]]
    sources = [built(QueueInput(data)), built(FeedInput(data))]
    with running(*sources):
        pass


def test_copies_are_separate_flows():
    flow = numbers()
    first = built(QueueInput(flow))
    with running(first):
        for other in (copy.copy(flow), copy.deepcopy(flow), pickle.loads(pickle.dumps(flow))):
            with tf.Graph().as_default(), running(built(QueueInput(other))):
                pass


def test_a_flow_that_workers_read_is_free():
    flow = Noise()
    runner = MultiProcessRunner(flow, 1)
    first = built(FeedInput(flow))
    with tf.Graph().as_default():
        [claims, *_] = built(QueueInput(runner)).hooks()
    with running(first):
        claims.after_create_session(None, tf.train.Coordinator())


def test_a_flow_is_free_again_after_the_end():
    flow = numbers()
    with running(built(QueueInput(flow))):
        pass
    with tf.Graph().as_default(), running(built(FeedInput(flow))):
        pass
    assert list(flow)


@pytest.mark.parametrize("kind", [QueueInput, FeedInput])
def test_a_flow_is_free_again_after_an_error(kind):
    flow = numbers()
    first = built(kind(flow))
    with pytest.raises(KeyError), running(first):
        raise KeyError
    with tf.Graph().as_default(), running(built(QueueInput(flow))):
        pass
    with running(first):
        pass


def test_a_flow_without_attributes_is_read():
    class Slotted:
        __slots__ = ()

        def __iter__(self):
            return iter([[1]])

        def state_dict(self):
            return {}

    with running(built(QueueInput(Slotted()))):
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: QueueInput([[k] for k in range(100)]),
        lambda: FeedInput([[k] for k in range(100)]),
        lambda: StagingInput(QueueInput([[k] for k in range(100)])),
        lambda: TFDatasetInput(lambda: tf.data.Dataset.range(100)),
        lambda: TensorInput(lambda: [tf.constant(3, tf.int64)], size=9, infinite=False),
    ],
)
def test_a_second_live_session_is_refused(make):
    source = make()
    source.setup(ONE)
    [n] = source.get_input_tensors()
    with running(source) as session:
        first = int(session.run(n))
        with refused(r"already runs in a session.*Close the first"):
            running(source)
        assert [int(session.run(n)) for _ in range(3)] in ([first + k for k in (1, 2, 3)], [3, 3, 3])
    with running(source) as session:
        assert session.run(n) == first
