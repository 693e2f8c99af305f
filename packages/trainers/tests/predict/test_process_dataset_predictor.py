"""Predictions in several processes, which may die."""

import os
import re
import signal
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CheckpointError
from towerpack_trainers import (
    ConfigError,
    MultiProcessDatasetPredictor,
    PredictConfig,
    PredictorInputError,
    PredictorProcessError,
    SaverRestore,
    TrainerStateError,
)

SPECS = [tf.TensorSpec([None], tf.float32, "x")]
FLOW = [[np.float32([k])] for k in range(20)]


def config(**changes):
    # Inside, so that it is pickled by value: the processes cannot import this module.
    def double_and_process(x):
        pid = tf.numpy_function(lambda value: np.int64(os.getpid()), [x], tf.int64)
        tf.identity(pid, name="pid")
        return tf.multiply(2.0, x, name="y")

    signature = {"tower_func": double_and_process, "input_signature": SPECS}
    return PredictConfig(**{**signature, "output_names": ["y", "pid"], **changes})


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_processes_share_a_flow_and_keep_its_order():
    flow = list(FLOW)
    with MultiProcessDatasetPredictor(config(), flow, processes=2) as predictor:
        for _ in range(2):
            results = predictor.get_all_result()
            assert [y[0] for y, _ in results] == [2 * k for k in range(20)]
        pids = {pid for _, pid in results}
        assert len(pids) == 2 and os.getpid() not in pids

        abandoned = predictor.get_result()
        next(abandoned)
        abandoned.close()
        assert {pid for _, pid in predictor.get_result()} == pids

        flow[3] = ["three"]
        with pytest.raises(PredictorInputError, match="Input 'x' is of type float32; received str") as caught:
            predictor.get_all_result()
        assert "of 2 raised this for datapoint 3:\nTraceback" in caught.value.__notes__[0]

        flow[3] = FLOW[3]
        results = predictor.get_result()
        next(results)
        os.kill(next(iter(pids)), signal.SIGKILL)
        with pytest.raises(
            PredictorProcessError, match=r"Process \d of 2 was killed by SIGKILL (while|between)"
        ):
            list(results)
        assert not any(map(is_there, pids))
    with pytest.raises(TrainerStateError, match="MultiProcessDatasetPredictor is closed"):
        predictor.get_all_result()


@pytest.mark.long
@pytest.mark.slow
def test_an_error_in_the_making_of_a_model_has_its_type(tmp_path):
    nothing = SaverRestore(tmp_path / "nothing")
    predictor = MultiProcessDatasetPredictor(config(session_init=nothing), FLOW, processes=1)
    with predictor, pytest.raises(CheckpointError, match="cannot be read") as caught:
        predictor.get_all_result()
    assert "Process 0 of 1 raised this while it built the model" in caught.value.__notes__[0]


@pytest.mark.long
@pytest.mark.slow
def test_an_error_in_a_function_of_the_script_shows_its_line():
    def faulty(x):
        raise KeyError("no such layer")

    predictor = MultiProcessDatasetPredictor(config(tower_func=faulty), FLOW, processes=1)
    with predictor, pytest.raises(KeyError) as caught:
        predictor.get_all_result()
    assert re.search(rf'File "{__file__}", line .*\n *raise KeyError\("no', caught.value.__notes__[0])


def test_a_config_that_cannot_be_sent():
    lock = threading.Lock()

    def guarded(x):
        with lock:
            return tf.identity(x, name="y")

    predictor = MultiProcessDatasetPredictor(config(tower_func=guarded), FLOW, processes=1)
    with predictor, pytest.raises(ConfigError, match="cannot be sent to a process: TypeError"):
        predictor.get_all_result()


def test_gpus_are_those_visible_to_this_process(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    predictor = MultiProcessDatasetPredictor(config(), FLOW, processes=1, gpus=[1])
    with predictor, pytest.raises(ConfigError, match="names GPU 1, but CUDA_VISIBLE_DEVICES='5' allows"):
        predictor.get_all_result()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"processes": 0}, r"processes=0\): expected a whole number of at least 1"),
        ({"gpus": [0]}, r"gpus=\[0\]\): expected 2 numbers, one for each process"),
        ({"dataflow": iter(FLOW)}, "expected a DataFlow, or another iterable"),
    ],
    ids=["processes", "gpus", "flow"],
)
def test_wrong_arguments(changes, message):
    with pytest.raises(ConfigError, match=message):
        MultiProcessDatasetPredictor(**{"config": config(), "dataflow": FLOW, "processes": 2, **changes})
