import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import FeedInput, PlaceholderInput, SpecError

X = tf.TensorSpec([None, 2], tf.float32, "x")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def tensors(source, specs):
    source.setup(specs)
    return source.get_input_tensors()


def test_named_after_the_specs_in_any_scope():
    with tf.name_scope("tower0"):
        [x] = tensors(PlaceholderInput(), [X])
    assert x.name == "x:0" and x.dtype == tf.float32 and x.shape.as_list() == [None, 2]


def test_every_call_and_every_source_gives_the_same():
    source = PlaceholderInput()
    [x] = tensors(source, [X])
    assert source.get_input_tensors()[0] is x
    assert tensors(PlaceholderInput(), [X])[0] is x
    assert tensors(FeedInput([[0]]), [X])[0] is x


@pytest.mark.parametrize(
    "other", [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 2], tf.int32, "x")]
)
def test_another_placeholder_of_the_name_is_an_error(other):
    tensors(PlaceholderInput(), [X])
    with pytest.raises(
        SpecError, match=r"already has a placeholder 'x' of dtype float32 and shape .* declares"
    ):
        PlaceholderInput().setup([other])


def test_another_op_of_the_name_is_an_error():
    tf.constant(1, name="x")
    with pytest.raises(
        SpecError, match=r"The name 'x' .* is already used in this graph by an op of type Const"
    ):
        PlaceholderInput().setup([X])


def test_unknown_rank():
    spec = tf.TensorSpec(None, tf.float32, "x")
    assert tensors(PlaceholderInput(), [spec])[0] is tensors(PlaceholderInput(), [spec])[0]
