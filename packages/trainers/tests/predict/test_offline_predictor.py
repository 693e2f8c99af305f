"""Predictions on live variables and on restored ones."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CheckpointError, ModelSaver, TensorNotFoundError
from towerpack_trainers import (
    ConfigError,
    DictRestore,
    OfflinePredictor,
    PredictConfig,
    RestoreError,
    SaverRestore,
    SimpleTrainer,
    SmartInit,
    SyncMultiGPUTrainer,
    TrainerStateError,
)


def predict_config(kit, **changes):
    values = {
        "model": kit.Line(),
        "session_init": DictRestore({"slope": np.float32(2)}),
        "input_names": ["x"],
        "output_names": ["error"],
    }
    return PredictConfig(**{**values, **changes})


X = np.array([1, 2], np.float32)
ZERO = np.zeros(2, np.float32)


def test_offline(kit):
    with OfflinePredictor(predict_config(kit, input_names=["x", "y"])) as predict:
        (error,) = predict(X, ZERO)
        np.testing.assert_array_equal(error, [2, 4])
        (error,) = predict(X[:1], ZERO[:1])
        np.testing.assert_array_equal(error, [2])


def test_all_inputs_by_default_and_any_output(kit):
    config = predict_config(kit, input_names=None, output_names=["cost:0", "slope", "y"])
    with OfflinePredictor(config) as predict:
        cost, slope, y = predict(X, ZERO)
    assert (cost, slope, y.tolist()) == (10, 2, [0, 0])


def test_the_trained_model_predicts(kit, configure, tmp_path):
    class Keep(Callback):
        def _setup_graph(self):
            self.predict = self.trainer.get_predictor(["image"], ["logits"])

        def _after_train(self):
            self.logits = self.predict(kit.net_data()[0][0])[0]

    keep = Keep()
    callbacks = [ModelSaver(), keep]
    SimpleTrainer(
        configure(model=kit.Net(), dataflow=kit.net_data(), callbacks=callbacks, extra_callbacks=None)
    ).train()
    for init in (SaverRestore(tmp_path / "run"), SmartInit(tmp_path / "run" / "latest")):
        config = predict_config(
            kit, model=kit.Net(), session_init=init, input_names=["image"], output_names=["logits"]
        )
        with OfflinePredictor(config) as predict:
            np.testing.assert_array_equal(predict(kit.net_data()[0][0])[0], keep.logits)


def test_a_checkpoint_of_a_training_predicts_though_the_model_counts_steps(kit, configure, tmp_path, caplog):
    class Counting(kit.Net):
        def build_graph(self, image, label):
            cost = super().build_graph(image, label)
            tf.cast(tf.train.get_or_create_global_step(), tf.float32, name="steps_so_far")
            return cost

    settings = {"model": Counting(), "dataflow": kit.net_data(), "optimizer": tf.train.AdamOptimizer(0.01)}
    SimpleTrainer(configure(callbacks=[ModelSaver()], extra_callbacks=None, **settings)).train()
    caplog.clear()
    caplog.set_level("INFO")
    for model, output in ((kit.Net(), "logits"), (Counting(), "steps_so_far")):
        init, wanted = SaverRestore(tmp_path / "run" / "latest"), {"input_names": ["image"]}
        config = predict_config(kit, model=model, session_init=init, output_names=[output], **wanted)
        with OfflinePredictor(config) as predict:
            (found,) = predict(kit.net_data()[0][0])
    assert found > 0
    # The state of an optimizer is logged briefly, and without a warning.
    assert " more" in next(
        message for message in caplog.messages if "does not have them: beta1_power" in message
    )
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_several_predictors_of_a_trainer(kit, configure):
    class Ask(Callback):
        def _trigger(self):
            self.answers = [predict(X)[0].tolist() for predict in predictors]

    ask = Ask()
    trainer = SyncMultiGPUTrainer(configure(callbacks=[ask], max_epoch=20), ["/cpu:0", "/cpu:1"])
    with pytest.raises(TensorNotFoundError, match="no tensor 'tower-pred/times:0'"):
        trainer.get_predictor(["x"], ["times"])
    predictors = [trainer.get_predictor(["x"], ["mul"]) for _ in range(2)]
    trainer.train()
    assert ask.answers[0] == ask.answers[1] == pytest.approx([3, 6], abs=0.1)


def test_a_predictor_outside_training(kit, configure):
    trainer = SimpleTrainer(configure())
    predict = trainer.get_predictor(["x", "y"], ["error"])
    with pytest.raises(TrainerStateError, match="There is no session now"):
        predict(X, ZERO)
    trainer.train()
    with pytest.raises(TrainerStateError, match="There is no session now"):
        predict(X, ZERO)


def test_a_predictor_after_training(configure):
    trainer = SimpleTrainer(configure())
    trainer.train()
    with pytest.raises(
        TrainerStateError, match=r"The graph is final. Call get_predictor in a callback's _setup_graph"
    ):
        trainer.get_predictor(["x"], ["error"])


def test_wrong_numbers_and_names(kit):
    message = r"takes 1 arrays \(x\), received 2"
    with OfflinePredictor(predict_config(kit)) as predict, pytest.raises(TypeError, match=message):
        predict(X, ZERO)
    with pytest.raises(TensorNotFoundError, match=r"no tensor 'errors:0'. Close names are: error"):
        OfflinePredictor(predict_config(kit, output_names=["errors"]))
    with pytest.raises(TypeError, match=r"received one string: 'error'. Write \['error'\]"):
        OfflinePredictor(predict_config(kit, output_names="error"))


def test_wrong_values(kit, tmp_path):
    with pytest.raises(RestoreError, match="None of the values matches this graph"):
        OfflinePredictor(predict_config(kit, session_init=DictRestore({"other": ZERO})))
    with pytest.raises(CheckpointError, match="cannot be read"):
        OfflinePredictor(predict_config(kit, session_init=SaverRestore(tmp_path / "nothing")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": 3}, r"PredictConfig\(model=...\) received 3 of type int; expected a ModelDesc object"),
        (
            {"session_init": "run"},
            r"PredictConfig\(session_init=...\) received 'run'.*such as SaverRestore\(path\)",
        ),
    ],
    ids=["model", "path"],
)
def test_wrong_arguments(kit, changes, message):
    with pytest.raises(ConfigError, match=message):
        predict_config(kit, **changes)


def test_a_closed_predictor_raises_an_error(kit):
    with OfflinePredictor(predict_config(kit, output_names=["mul"])) as predict:
        predict(X)
    with pytest.raises(TrainerStateError, match="OfflinePredictor is closed"):
        predict(X)
    assert [tensor.op.name for tensor in predict.inputs] == ["x"]
