"""Predictions for all datapoints of a flow."""

from functools import partial

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    MapData,
    RepeatedData,
)
from towerpack_trainers import (
    ConfigError,
    MultiProcessDatasetPredictor,
    OfflinePredictor,
    PredictConfig,
    PredictorInputError,
    SimpleDatasetPredictor,
    TrainerStateError,
)
from towerpack_trainers.towers import _batch_calls

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


def small_batches(count=243, batch=2):
    """A flow that makes blocks of batches."""
    numbers = np.arange(count, dtype=np.float32)
    return BatchData(DataFromArrays([numbers, numbers**2], shuffle=False), batch, remainder=True)


@pytest.fixture
def always_faster(monkeypatch):
    """Several datapoints in a call are tried, and kept, on a machine of any load."""
    monkeypatch.setattr(_batch_calls, "_LONGEST_PASS", 1e9)
    monkeypatch.setattr(_batch_calls, "_CALLS", 1e9)


@pytest.mark.usefixtures("always_faster")
@pytest.mark.parametrize("return_input", [False, True])
def test_several_datapoints_in_a_call(return_input):
    config = attrs.evolve(CONFIG, return_input=return_input)
    with SimpleDatasetPredictor(config, small_batches()) as predictor:
        for _ in range(2):
            results = predictor.get_all_result()
            assert predictor._calls.most == 8
    with OfflinePredictor(config) as predict:
        expected = [predict(*batch) for batch in small_batches()]
    assert len(results) == len(expected) == 122
    for one, other in zip(results, expected):
        for value, another in zip(tf.nest.flatten(one), tf.nest.flatten(other)):
            np.testing.assert_array_equal(value, another, strict=True)


@pytest.mark.usefixtures("always_faster")
@pytest.mark.parametrize("first", [3, 110, 118], ids=str)
def test_a_wrong_datapoint_among_several_is_named(first):
    numbers = np.arange(120)
    wrong = np.where(numbers == first, 2**30 + 1, numbers)  # float32 does not represent it
    flow = BatchData(DataFromArrays([numbers, wrong], shuffle=False), 1)
    config = attrs.evolve(CONFIG, input_signature=[SPECS[0], tf.TensorSpec([None], tf.int16, "z")])
    config = attrs.evolve(config, tower_func=lambda x, z: tf.subtract(x, tf.cast(z, tf.float32), name="y"))
    received = []
    with SimpleDatasetPredictor(config, flow) as predictor:
        with pytest.raises(PredictorInputError, match=f"Datapoint {first}: Input 'z' is of type int16"):
            received.extend(predictor.get_result())
        assert [y.tolist() for (y,) in received] == [[0]] * first


@pytest.mark.usefixtures("always_faster")
def test_the_end_between_two_of_several_datapoints():
    with SimpleDatasetPredictor(CONFIG, small_batches()) as predictor:
        results = predictor.get_result()
        for _ in range(118):
            next(results)
        next(predictor.get_result())
        with pytest.raises(TrainerStateError, match=r"Another get_result\(\) of this predictor has begun"):
            next(results)
        results = predictor.get_result()
        for _ in range(3):
            next(results)
    with pytest.raises(TrainerStateError, match="is closed"):
        next(results)


def test_a_generator_is_read_one_by_one():
    read = []

    def generate():
        for number in range(5):
            read.append(number)
            yield [float(number), 1.0]

    with SimpleDatasetPredictor(CONFIG, BatchData(DataFromGenerator(generate), 1)) as predictor:
        for done, _ in enumerate(predictor.get_result()):
            assert len(read) == done + 1


def test_batches_without_components_are_refused():
    flow = BatchData(MapData(DataFromList(range(6)), lambda _: []), 2)
    refused = pytest.raises(PredictorInputError, match=r"Datapoint 0: The predictor takes 2 arrays")
    with SimpleDatasetPredictor(CONFIG, flow) as predictor, refused:
        list(predictor.get_result())
