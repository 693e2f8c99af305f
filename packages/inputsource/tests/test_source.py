import concurrent.futures

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_inputsource import (
    DummyConstantInput,
    FeedInput,
    PlaceholderInput,
    QueueInput,
    SetupError,
    SpecError,
)

X = tf.TensorSpec([None], tf.float32, "x")
N = tf.TensorSpec([], tf.int32, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "received no specs"),
        ([X, (None, tf.float32)], "Spec 1 is .* not a tf.TensorSpec"),
        ([tf.TensorSpec([None], tf.float32)], "Spec 0 has no name"),
        ([X, X], r"The names \['x'\] occur more than once"),
    ],
)
def test_specs_are_checked(specs, message):
    with pytest.raises(SpecError, match=message):
        PlaceholderInput().setup(specs)


@pytest.mark.parametrize("method", ["get_input_tensors", "hooks", "reset_state"])
def test_nothing_works_before_setup(method):
    with pytest.raises(SetupError, match=rf"QueueInput.{method}\(\) was called before setup\(\)"):
        getattr(QueueInput([[1]]), method)()


def test_setup_happens_once():
    source = PlaceholderInput()
    source.setup([X])
    with pytest.raises(SetupError, match=r"PlaceholderInput.setup\(\) was called a second time.*new source"):
        source.setup([X])


def test_sizes():
    assert FeedInput([[1], [2]]).size() == QueueInput([[1], [2]]).size() == 2
    assert PlaceholderInput().size() is DummyConstantInput().size() is None


def test_a_source_without_position_takes_no_state_of_another():
    source = PlaceholderInput()
    source.load_state_dict(source.state_dict())
    with pytest.raises(ValueError, match=r"PlaceholderInput has no position to restore.*\['flow'\]"):
        source.load_state_dict({"flow": 3})


def eagerly(function):
    """Calls a function in eager mode: that of a new thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


@pytest.mark.parametrize("make", [lambda: QueueInput([[1]]), PlaceholderInput, DummyConstantInput])
def test_there_must_be_a_graph(make):
    with pytest.raises(SetupError, match=r"setup\(\) was called in eager mode.*with tf.Graph"):
        eagerly(lambda: make().setup([N]))

    @tf2.function(autograph=False)
    def traced():
        make().setup([N])

    with pytest.raises(SetupError, match=r"called in the function 'traced'.*directly"):
        eagerly(traced)


def test_a_take_belongs_into_the_graph_of_the_setup():
    source = QueueInput([[1]])
    source.setup([N])
    with tf.Graph().as_default(), pytest.raises(SetupError, match="called in another graph than setup"):
        source.get_input_tensors()
    with pytest.raises(SetupError, match="called in another graph than setup"):
        eagerly(source.get_input_tensors)


def test_a_take_may_lie_in_a_branch():
    source = QueueInput([[7]])
    source.setup([N])
    taken = tf2.cond(
        tf.placeholder_with_default(True, []), lambda: source.get_input_tensors()[0], lambda: tf.constant(0)
    )
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        assert session.run(taken) == 7
