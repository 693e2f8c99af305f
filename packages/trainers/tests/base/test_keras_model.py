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
from towerpack_trainers.testing import FinalVariables

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
    """Batches of four numbers, and the index of the half with the larger sum."""
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
    optimizer = tf.train.GradientDescentOptimizer(0.05)
    for wrong in (["mse"], {"one": "mse"}, {"one": "mse", "two": "mse", "three": "mse"}):
        with pytest.raises(ConfigError, match=r"loss=.* expected one for each of the targets one, two"):
            model.compile(optimizer, wrong)
    with pytest.raises(ConfigError, match=r"loss_weights=.* received 3 entries for 2 targets"):
        model.compile(optimizer, "mse", loss_weights=[1, 2, 3])
    with pytest.raises(
        ConfigError, match=r"metrics=.* received a dict with three; expected names of targets"
    ):
        model.compile(optimizer, "mse", metrics={"three": "mae"})
    with pytest.raises(ConfigError, match="has no loss"):
        model.compile(optimizer, [None, None])
    with pytest.raises(ConfigError, match="reduction='none', which is one number for each example"):
        model.compile(optimizer, keras.losses.MeanSquaredError(reduction="none"))
    model.compile(optimizer, "mse")
    with pytest.raises(ConfigError, match="with one target and without sample weights; received 2 targets"):
        model.fit(points, class_weight={0: 1.0})


@pytest.mark.parametrize(
    ("metrics", "message"),
    [("nothing_of_keras", "'nothing_of_keras'; expected the name"), (keras.metrics.AUC, "has a state")],
)
def test_unsupported_metrics_are_refused(metrics, message):
    model = KerasModel(network, [IMAGE], [LABEL])
    with pytest.raises(ConfigError, match=message):
        model.compile(tf.train.AdamOptimizer(), "mse", metrics=[metrics])


WORDS = tf.TensorSpec([None, 3], tf.int32, "words")
NUMBERS = tf.TensorSpec([None, 3, 1], tf.float32, "numbers")


def test_masks_and_weights_count_in_metrics():
    def tagger():
        parts = [keras.layers.Embedding(4, 1, "ones", mask_zero=True), keras.layers.Activation("linear")]
        return keras.Sequential(parts, name="tagger")

    weight = tf.TensorSpec([None, 3], tf.float32, "weight")
    model = KerasModel(tagger, [WORDS], [NUMBERS], sample_weights=[weight])
    rate = tf.train.GradientDescentOptimizer(0.0)
    model.compile(
        rate, "mae", ["mae", "accuracy"], weighted_metrics=["mae", keras.metrics.MeanSquaredError()]
    )
    words = np.array([[1, 2, 0], [3, 0, 0]], np.int32)
    numbers = np.float32([[1, 3, 9], [5, 9, 9]])[..., None]  # errors 0, 2 and 4, and others behind the words
    points = [[words, numbers, np.float32([[1, 1, 1], [3, 3, 3]])]]
    trainer = model.fit(points, validation_data=points, max_epoch=1, log_dir=None, **QUIET)
    found = {name: trainer.monitors.get_latest(f"validation_{name}") for name in model.model.statistics}
    expected = {"mae": 2, "accuracy": 1 / 3, "weighted_mae": 2.8, "mean_squared_error": 10.4}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["cost"] == pytest.approx((0 + 2 + 3 * 4) / 3)


def pretrained():
    net = keras.Sequential([keras.Input([4]), keras.layers.Dense(2, "softmax", name="fc")], name="net")
    net.set_weights([np.eye(4, 2, dtype=np.float32), np.zeros(2, np.float32)])
    return net


@pytest.mark.parametrize("options", [{}, {"trainer": two_devices}], ids=["one device", "two towers"])
def test_a_function_that_sets_weights(options):
    model = KerasModel(pretrained, [IMAGE], [LABEL], **options)
    model.compile(lambda: tf.train.GradientDescentOptimizer(0.0), "sparse_categorical_crossentropy")
    final = FinalVariables()
    model.fit(halves(), max_epoch=1, log_dir=None, callbacks=[final], **QUIET)
    np.testing.assert_array_equal(final.values["net/fc/kernel"], np.eye(4, 2))


def test_mistakes_are_reported_before_the_training():
    with pytest.raises(ModelError, match=r"targets=\[\]"):
        KerasModel(network, [IMAGE], [])
    model = KerasModel(network, [IMAGE], [LABEL])
    with pytest.raises(TrainerStateError, match="needs compile"):
        model.fit(halves())
    for wrong, instead in ({"epochs": 2}, "max_epoch= instead"), ({"batch_size": 2}, r"BatchData\(flow, "):
        with pytest.raises(TypeError, match=f"received {next(iter(wrong))}=; write {instead}"):
            compiled().fit(halves(), **wrong)
    surplus = KerasModel(network, [IMAGE], [LABEL, tf.TensorSpec([None], tf.int32, "other")])
    surplus.compile(tf.train.AdamOptimizer(), ["sparse_categorical_crossentropy"] * 2)
    with pytest.raises(ModelError, match=r"has 1 outputs, but .* 2 specs"):
        surplus.fit([[np.ones((2, 4), np.float32), *[np.zeros(2, np.int32)] * 2]], log_dir=None, **QUIET)
