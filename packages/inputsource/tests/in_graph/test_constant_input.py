import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import DummyConstantInput, SpecError

SPECS = [
    tf.TensorSpec([None, 2], tf.float32, "image"),
    tf.TensorSpec([], tf.string, "name"),
    tf.TensorSpec([1], tf.bool, "flag"),
]


def test_zeros_of_the_given_shapes_for_each_tower():
    with tf.Graph().as_default(), tf.Session() as session:
        source = DummyConstantInput([(3, 2), (), (1,)])
        source.setup(SPECS)
        first, second = source.get_input_tensors(), source.get_input_tensors()
        assert first[0] is not second[0]
        image, name, flag = session.run(first)
    assert np.array_equal(image, np.zeros((3, 2), "float32"))
    assert name == b"" and flag == [False]


def test_on_the_device_of_the_tower():
    with tf.Graph().as_default():
        source = DummyConstantInput()
        source.setup([tf.TensorSpec([2], tf.float32, "x")])
        with tf.device("/gpu:1"):
            [x] = source.get_input_tensors()
    assert x.device == "/device:GPU:1"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (None, r"The shape \(None, 2\) of 'image' is not fully known.*DummyConstantInput\(shapes="),
        ([(3, 2)], "Received 1 shapes for 3 specs"),
        ([(3, 3), (), (1,)], r"The shape \(3, 3\) for 'image' contradicts the declared \(None, 2\)"),
    ],
)
def test_shapes_are_checked(shapes, message):
    with tf.Graph().as_default(), pytest.raises(SpecError, match=message):
        DummyConstantInput(shapes).setup(SPECS)
