"""Several devices, which share variables and session."""

import numpy as np
import pytest

from towerpack_trainers import (
    ConfigError,
    DataParallelOfflinePredictor,
    DictRestore,
    MultiTowerOfflinePredictor,
    PredictConfig,
    PredictorInputError,
    TrainerStateError,
)

X = np.array([1, 2], np.float32)
DEVICES = ["/cpu:0", "/cpu:1"]


@pytest.fixture
def config(kit):
    return PredictConfig(
        model=kit.Line(),
        session_init=DictRestore({"slope": np.float32(2)}),
        input_names=["x"],
        output_names=["mul", "slope"],
    )


def test_a_predictor_for_each_device(config):
    with MultiTowerOfflinePredictor(config, DEVICES) as predict:
        predictors = predict.get_predictors()
        devices = [predictor.outputs[0].device[-5:].lower() for predictor in predictors]
        assert devices == ["cpu:0", "cpu:1"]
        assert predict.get_predictor(1) is predictors[1]
        for function in (predict, *predictors):
            y, slope = function(X)
            np.testing.assert_array_equal(y, 2 * X)
            assert slope == 2
        with pytest.raises(ConfigError, match=r"get_predictor\(2\): expected the number of a device, 0 to 1"):
            predict.get_predictor(2)
    with pytest.raises(TrainerStateError, match="MultiTowerOfflinePredictor is closed"):
        predictors[1](X)


def test_one_call_runs_all_devices(config):
    with DataParallelOfflinePredictor(config, DEVICES) as predict:
        one, slope, other, _ = predict(X, 3 * X[:1])
        np.testing.assert_array_equal(one, 2 * X)
        np.testing.assert_array_equal(other, 6 * X[:1])
        assert slope == 2
        assert [tensor.op.name for tensor in predict.inputs] == ["x", "x_1"]
        with pytest.raises(PredictorInputError, match=r"takes 2 arrays \(x, x_1\), received 1"):
            predict(X)


def test_numbers_name_devices(config):
    with MultiTowerOfflinePredictor(config, [-1, "/cpu:1"]) as predict:
        assert predict.get_predictor(0).outputs[0].device.lower().endswith("cpu:0")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([], r"DataParallelOfflinePredictor\(devices=\[\]\): expected a list"),
        ("/cpu:0", "expected a list such as"),
        (["/cpu:0", "/cpu:0"], "names a device twice"),
        ([99], "names GPU 99, but this host has"),
        ([True], "device=True: expected the number of a GPU, -1 for the CPU, or a name"),
    ],
    ids=["none", "a string", "twice", "not there", "no number"],
)
def test_wrong_devices(config, devices, message):
    with pytest.raises(ConfigError, match=message):
        DataParallelOfflinePredictor(config, devices)
