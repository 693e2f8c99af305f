"""Predictions for all datapoints of a flow."""

from functools import partial

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import BatchData, DataFromList, RepeatedData
from towerpack_trainers import (
    ConfigError,
    MultiProcessDatasetPredictor,
    PredictConfig,
    PredictorInputError,
    SimpleDatasetPredictor,
    TrainerStateError,
)

SPECS = [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "z")]


def difference(x, z):
    return tf.subtract(x, z, name="y")


CONFIG = PredictConfig(tower_func=difference, input_signature=SPECS, output_names=["y"])
FLOW = [[np.float32([k, 2 * k]), np.float32([k, k])] for k in range(3)]


def test_each_datapoint_of_each_pass():
    with SimpleDatasetPredictor(CONFIG, FLOW) as predictor:
        for _ in range(2):
            assert [y.tolist() for (y,) in predictor.get_result()] == [[0, 0], [0, 1], [0, 2]]
        assert len(predictor.get_all_result()) == 3


def test_a_dataflow_with_a_smaller_last_batch():
    points = DataFromList([[float(k), 1.0] for k in range(5)], shuffle=False)
    with SimpleDatasetPredictor(CONFIG, BatchData(points, 2, remainder=True)) as predictor:
        assert [y.tolist() for (y,) in predictor.get_result()] == [[-1, 0], [1, 2], [3]]


@pytest.mark.parametrize("kind", [SimpleDatasetPredictor, partial(MultiProcessDatasetPredictor, processes=1)])
def test_a_flow_that_never_ends_is_refused(kind):
    with pytest.raises(ConfigError, match=r"which repeats for ever; expected .* FixedSizeData\(flow, size\)"):
        kind(CONFIG, RepeatedData(FLOW, -1))


def test_dicts_by_the_names_of_inputs():
    flow = [{"z": [1.0], "x": [3.0], "more": 0}]
    with SimpleDatasetPredictor(CONFIG, flow) as predictor:
        assert predictor.get_all_result() == [[np.float32(2)]]


@pytest.mark.parametrize(
    ("datapoint", "message"),
    [
        ([[1.0]], r"Datapoint 1: The predictor takes 2 arrays \(x, z\), received 1"),
        ([[1.0], 2.0], r"Datapoint 1: The predictor's input 'z' has shape \(None,\).* array of shape \(\)"),
        ([[1.0], ["two"]], "Datapoint 1: Input 'z' is of type float32; received str"),
        ({"x": [1.0]}, "Datapoint 1: received a dict with the keys x; expected also z"),
        (1.0, "Datapoint 1: received float; expected a list, tuple or dict of x, z"),
    ],
    ids=["count", "shape", "type", "names", "structure"],
)
def test_a_wrong_datapoint_is_named(datapoint, message):
    with SimpleDatasetPredictor(CONFIG, [[[1.0], [2.0]], datapoint]) as predictor:
        results = predictor.get_result()
        next(results)
        with pytest.raises(PredictorInputError, match=message):
            next(results)


def test_one_pass_at_a_time():
    with SimpleDatasetPredictor(CONFIG, FLOW) as predictor:
        first, second = predictor.get_result(), predictor.get_result()
        next(first), next(second)
        with pytest.raises(TrainerStateError, match=r"Another get_result\(\) of this predictor has begun"):
            next(first)


def test_iterators_are_refused():
    with pytest.raises(
        ConfigError, match="expected a DataFlow, or another iterable that can be iterated again"
    ):
        SimpleDatasetPredictor(CONFIG, iter(FLOW))


def test_errors_of_the_flow_are_unchanged():
    class Broken:
        def __iter__(self):
            yield FLOW[0]
            raise OSError("no such disk")

    with SimpleDatasetPredictor(CONFIG, Broken()) as predictor, pytest.raises(OSError, match="no such disk"):
        predictor.get_all_result()
