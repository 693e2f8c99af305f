"""A Keras model that is compiled and fitted by a trainer."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver
from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_trainers import (
    ConfigError,
    KerasModel,
    ModelError,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SyncMultiGPUTrainer,
    TrainerStateError,
)

IMAGE = tf.TensorSpec([None, 4], tf.float32, "image")
LABEL = tf.TensorSpec([None], tf.int32, "label")
QUIET = {"monitors": []}


def network():
    layers = keras.layers
    regularizer = keras.regularizers.L2(1e-4)
    return keras.Sequential(
        [
            layers.Dense(16, activation="relu", kernel_regularizer=regularizer),
            layers.BatchNormalization(momentum=0.5),
            layers.Dropout(0.1),
            layers.Dense(2, activation="softmax"),
        ],
        name="net",
    )


def halves():
    """Which half of four numbers has the larger sum."""
    images = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)
    labels = (images[:, :2].sum(1) > images[:, 2:].sum(1)).astype(np.int32)
    return BatchData(DataFromArrays([images, labels], shuffle=True), 32)


def compiled(**options):
    model = KerasModel(network, [IMAGE], [LABEL], **options)
    loss, metrics = "sparse_categorical_crossentropy", ["accuracy"]
    model.compile(lambda: tf.train.AdamOptimizer(0.02), loss, metrics=metrics)
    return model


def two_devices(config):
    return SyncMultiGPUTrainer(config, devices=["/cpu:0", "/cpu:1"])


@pytest.mark.parametrize("options", [{}, {"trainer": two_devices}], ids=["one device", "two towers"])
def test_a_model_learns_and_predicts(options, tmp_path):
    model = compiled(**options)
    log_dir = tmp_path / "log"
    config = {"callbacks": [ModelSaver()], "seed": 1, "log_dir": log_dir, **QUIET}
    trainer = model.fit(halves(), validation_data=halves(), max_epoch=4, **config)
    assert trainer.monitors.get_latest("validation_accuracy") > 0.9
    more = model.fit(halves(), validation_data=halves(), max_epoch=5, resume="auto", **config)
    assert more.global_step == 40
    restored = SaverRestore(log_dir / "model-40")
    settings = PredictConfig(
        model=model.model, session_init=restored, input_names=["image"], output_names=["output"]
    )
    with OfflinePredictor(settings) as predictor:
        images, labels = next(iter(halves()))
        [chances] = predictor(images)
    assert np.allclose(chances.sum(1), 1, atol=1e-5)
    assert (chances.argmax(1) == labels).mean() > 0.9


def test_averages_and_regularizers_count():
    model = compiled()
    trainer = model.fit(halves(), max_epoch=1, log_dir=None, monitors=[])
    names = {variable.op.name for variable in trainer.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    assert {"net/dense/kernel", "net/batch_normalization/moving_mean"} <= names
    assert trainer.graph.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)


def test_several_outputs_have_a_loss_each():
    def twins():
        given = keras.Input((4,))
        return keras.Model(given, [keras.layers.Dense(1)(given), keras.layers.Dense(2)(given)], name="twins")

    def spec(name, size):
        return tf.TensorSpec([None, size], tf.float32, name)

    model = KerasModel(twins, [IMAGE], [spec("one", 1), spec("two", 2)])
    model.compile(tf.train.GradientDescentOptimizer(0.05), ["mse", keras.losses.Huber()], metrics="mae")
    x = np.ones((8, 4), np.float32)
    points = [[x, x[:, :1], x[:, :2]]] * 30
    model.fit(points, max_epoch=1, log_dir=None, **QUIET)
    with pytest.raises(ConfigError, match="1 losses for 2 targets; expected one for each"):
        model.compile(tf.train.GradientDescentOptimizer(0.05), "mse")


@pytest.mark.parametrize(
    ("metrics", "message"),
    [("nothing_of_keras", "'nothing_of_keras'; expected the name"), (keras.metrics.AUC, "has a state")],
)
def test_what_cannot_be_measured_is_refused(metrics, message):
    model = KerasModel(network, [IMAGE], [LABEL])
    with pytest.raises(ConfigError, match=message):
        model.compile(tf.train.AdamOptimizer(), "mse", metrics=[metrics])


def test_mistakes_are_told_before_the_training():
    with pytest.raises(ModelError, match=r"targets=\[\]"):
        KerasModel(network, [IMAGE], [])
    model = KerasModel(network, [IMAGE], [LABEL])
    with pytest.raises(TrainerStateError, match="comes after compile"):
        model.fit(halves())
    for wrong, instead in ({"epochs": 2}, "max_epoch= instead"), ({"batch_size": 2}, r"BatchData\(flow, "):
        with pytest.raises(TypeError, match=f"received {next(iter(wrong))}=; write {instead}"):
            compiled().fit(halves(), **wrong)
    surplus = KerasModel(network, [IMAGE], [LABEL, tf.TensorSpec([None], tf.int32, "other")])
    surplus.compile(tf.train.AdamOptimizer(), ["sparse_categorical_crossentropy"] * 2)
    with pytest.raises(ModelError, match=r"has 1 outputs, and .* 2 specs"):
        surplus.fit([[np.ones((2, 4), np.float32), *[np.zeros(2, np.int32)] * 2]], log_dir=None, **QUIET)
