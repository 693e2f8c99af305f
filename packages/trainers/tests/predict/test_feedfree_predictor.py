"""Predictions over an input source."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import DatapointShapeError, FeedInput, QueueInput, TensorInput
from towerpack_trainers import ConfigError, FeedfreePredictor, PredictConfig, TrainerStateError

SPECS = [tf.TensorSpec([None], tf.float32, "x")]
FLOW = [[np.float32([k, k])] for k in range(3)]


def config(**changes):
    double = {"tower_func": lambda x: tf.multiply(2.0, x, name="y"), "input_signature": SPECS}
    return PredictConfig(**{**double, "output_names": ["y"], **changes})


def predictions(predict):
    found = []
    with pytest.raises(tf.errors.OutOfRangeError, match="Call reset_state"):
        while True:
            found.append(predict()[0].tolist())
    return found


@pytest.mark.parametrize("kind", [FeedInput, QueueInput])
def test_all_of_a_pass_and_of_the_next_one(kind):
    with FeedfreePredictor(config(), kind(FLOW, infinite=False)) as predict:
        for _ in range(2):
            assert predictions(predict) == [[0, 0], [2, 2], [4, 4]]
            with pytest.raises(tf.errors.OutOfRangeError):
                predict()
            predict.reset_state()
    predict.close()
    with pytest.raises(TrainerStateError, match="FeedfreePredictor is closed"):
        predict()


def test_inputs_are_returned():
    with FeedfreePredictor(config(return_input=True), TensorInput(lambda: [tf.ones([3])])) as predict:
        [x], [y] = predict()
        np.testing.assert_array_equal(2 * x, y)


def test_an_error_of_the_data_is_not_its_end():
    source = QueueInput([*FLOW, [np.zeros([2, 2], np.float32)]], infinite=False)
    message = r"\(2, 2\)"
    with FeedfreePredictor(config(), source) as predict, pytest.raises(DatapointShapeError, match=message):
        for _ in range(4):  # it may be known earlier, as the source reads ahead
            predict()


def test_objects_that_are_not_sources():
    with pytest.raises(ConfigError, match=r"expected an InputSource.* use SimpleDatasetPredictor"):
        FeedfreePredictor(config(), FLOW)


def test_it_takes_no_arrays():
    with (
        FeedfreePredictor(config(), FeedInput(FLOW)) as predict,
        pytest.raises(TypeError, match="takes no arguments; received 1 arrays"),
    ):
        predict(FLOW[0])
