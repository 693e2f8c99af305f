import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import DataFromList, ShardData
from towerpack_inputsource import (
    BatchQueueInput,
    FeedInput,
    ProxyInputSource,
    QueueInput,
    SpecError,
    TensorInput,
    remap_input_source,
)
from towerpack_inputsource.testing import ListFlow

A = tf.TensorSpec([], tf.float32, "a")
B = tf.TensorSpec([], tf.int32, "b")
C = tf.TensorSpec([], tf.int32, "c")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


class Doubled(ProxyInputSource):
    def _get_input_tensors(self, specs):
        return [2 * tensor for tensor in super()._get_input_tensors(specs)]


def test_a_proxy_hands_everything_on():
    inner = QueueInput(ListFlow([[k] for k in range(5)]), capacity=2, infinite=False)
    source = Doubled(inner)
    assert source.size() == 5 and not source.infinite and source.feed_free
    source.load_state_dict({"flow": {"next": 1}})
    source.setup([B])
    [n] = source.get_input_tensors()
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert [session.run(n) for _ in range(2)] == [2, 4]
        assert source.state_dict() == {"flow": {"next": 3}}
        assert source.status().source == "QueueInput"
        source.reset_state()
        assert session.run(n) == 0


def test_a_proxy_is_about_a_source():
    with pytest.raises(TypeError, match=r"wraps an InputSource, but received \[\[1\]\].*QueueInput"):
        ProxyInputSource([[1]])
    assert not ProxyInputSource(FeedInput([[1]])).feed_free


def test_inputs_in_another_order():
    source = remap_input_source(QueueInput([[1, 0.5]]), ["b", "a"])
    source.setup([A, B])
    a, b = source.get_input_tensors()
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert session.run([a, b]) == [0.5, 1]
    assert source.feed_free


def test_inputs_not_named_become_placeholders():
    source = remap_input_source(QueueInput([{"c": 2, "a": 0.5}]), ["a", "c"])
    source.setup([A, B, C])
    a, b, c = source.get_input_tensors()
    assert (b.op.type, b.op.name) == ("Placeholder", "b")
    assert not source.feed_free
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert session.run([a, b, c], {b: 7}) == [0.5, 7, 2]


def test_the_class_is_unchanged():
    inner = TensorInput(lambda: [tf.constant(1)])
    assert type(remap_input_source(inner, ["b"])) is type(remap_input_source(QueueInput([[1]]), ["b"]))
    assert remap_input_source(inner, ["b"]).source is inner


def test_names_are_checked():
    with pytest.raises(ValueError, match=r"\['a', 'a'\] contains a name twice"):
        remap_input_source(QueueInput([[1]]), ["a", "a"])
    with pytest.raises(SpecError, match=r"names \['z'\], but the model's inputs are \['a', 'b'\]"):
        remap_input_source(QueueInput([[1]]), ["z"]).setup([A, B])


class Seeded(list):
    seeds = ()

    def seed(self, seed):
        self.seeds = (*self.seeds, seed)


@pytest.mark.parametrize(
    "make", [QueueInput, FeedInput, lambda df: BatchQueueInput(df, 2), lambda df: Doubled(QueueInput(df))]
)
def test_a_seed_reaches_the_flow(make):
    flow = Seeded([[1], [2]])
    make(flow).seed(7)
    assert flow.seeds == (7,)
    make([[1]]).seed(7)  # has nothing to seed
    assert make([[1]]).sharded is None
    assert make(DataFromList([[1]])).sharded is False
    assert make(ShardData([[1]], 0, 1)).sharded is True


def test_a_seed_without_a_flow_changes_nothing():
    source = TensorInput(lambda: [tf.constant(1.0)])
    source.seed(7)
    source.setup([A])
    assert source.state_dict() == {}
