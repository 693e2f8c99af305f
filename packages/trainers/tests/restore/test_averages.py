"""The moving averages of `EMA`, restored instead of the weights."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import EMA, ModelSaver
from towerpack_callbacks.checkpoint import load_variables
from towerpack_trainers import (
    DictRestore,
    OfflinePredictor,
    PredictConfig,
    RestoreError,
    SaverRestore,
    SessionInit,
    SimpleTrainer,
    SmartInit,
)

AVERAGE = "/ExponentialMovingAverage"
WEIGHTS = {"gen/w": np.float32(1), "discrim/w": np.float32(2)}


def two_networks(x):
    for scope in ("gen", "discrim"):
        with tf.variable_scope(scope):
            tf.identity(tf.get_variable("w", [], initializer=tf.zeros_initializer()), name="out")
    return x


def weights(init):
    config = PredictConfig(
        tower_func=two_networks,
        input_signature=[tf.TensorSpec([], tf.float32, "x")],
        output_names=["gen/w", "discrim/w"],
        session_init=init,
        ema=True,
    )
    with OfflinePredictor(config) as predict:
        return predict(0.0)


def test_a_predictor_takes_the_averages_of_a_checkpoint(kit, configure, tmp_path):
    SimpleTrainer(configure(callbacks=[EMA(0.9), ModelSaver()], extra_callbacks=[])).train()
    saved = load_variables(tmp_path / "run")
    assert saved["slope"] != saved["slope" + AVERAGE]
    config = {"model": kit.Line(), "input_names": [], "output_names": ["slope"]}
    for init in (SaverRestore(tmp_path / "run"), SmartInit(tmp_path / "run")):
        with OfflinePredictor(PredictConfig(session_init=init, ema=True, **config)) as predict:
            assert predict() == [saved["slope" + AVERAGE]]
        with OfflinePredictor(PredictConfig(session_init=init, **config)) as predict:
            assert predict() == [saved["slope"]]


def test_variables_without_an_average_keep_their_weights():
    assert weights(DictRestore({**WEIGHTS, "gen/w" + AVERAGE: np.float32(5)})) == [5, 2]


def test_averages_are_renamed_as_their_weights_are():
    values = {"g/w": np.float32(1), "g/w" + AVERAGE: np.float32(5)}
    assert weights(SmartInit(values, rename={"g/w": "gen/w"})) == [5, 0]


def test_in_a_list_available_averages_count():
    averaged = {"gen/w": np.float32(1), "gen/w" + AVERAGE: np.float32(5)}
    assert weights(SmartInit([{"discrim/w": np.float32(7)}, averaged])) == [5, 7]


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (DictRestore(WEIGHTS), "ema=True, but the given dictionary holds no averages. .*Train with EMA"),
        (SmartInit([WEIGHTS, WEIGHTS]), "ema=True, but the given dictionary holds no averages"),
        (SmartInit(None), "ema=True, but nothing is restored"),
        (
            DictRestore({**WEIGHTS, "other/w": np.float32(0), "other/w" + AVERAGE: np.float32(5)}),
            "holds only averages of other/w, which are not variables of this graph",
        ),
    ],
    ids=["none", "none in a list", "nothing", "others"],
)
def test_values_without_averages_are_refused(init, message):
    with pytest.raises(RestoreError, match=message):
        weights(init)


def test_a_checkpoint_without_averages_is_refused(configure, tmp_path, kit):
    SimpleTrainer(configure(callbacks=[ModelSaver()])).train()
    config = {"model": kit.Line(), "output_names": ["slope"]}
    with pytest.raises(RestoreError, match=r"run holds no averages. Among \d+ variables no name ends with"):
        OfflinePredictor(PredictConfig(session_init=SaverRestore(tmp_path / "run"), ema=True, **config))


class Own(SessionInit):
    """Restores nothing."""

    def restore(self, sess):
        pass


def test_a_session_init_without_averages():
    with pytest.raises(RestoreError, match=r"Own does not restore averages. Use SaverRestore\(path\)"):
        weights(Own())
