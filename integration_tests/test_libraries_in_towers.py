"""Networks of other libraries under trainers: several towers, evaluation, checkpoints, resumed runs."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import KerasLayerError, regularize_cost_from_collection
from towerpack_layers.interop import enable_slim, use_keras
from towerpack_trainers import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TowerRuleError,
    TrainConfig,
)

slim = pytest.importorskip("tf_slim")
tf_keras = pytest.importorskip("tf_keras")

enable_slim()
TWO = ["/cpu:0", "/cpu:1"]
TRAINERS = {
    "one": SimpleTrainer,
    "shared": lambda config: SyncMultiGPUTrainerParameterServer(config, TWO),
    "replicated": lambda config: SyncMultiGPUTrainerReplicated(config, TWO, mode="hierarchical"),
}


def in_slim(x):
    norm = {"normalizer_fn": slim.batch_norm, "normalizer_params": {"decay": 0.9, "scale": True}}
    with slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(1e-3), **norm):
        x = slim.max_pool2d(slim.conv2d(x, 16, 3), 2)
    return slim.fully_connected(slim.dropout(slim.flatten(x), 0.7), 10, activation_fn=None)


def make(library):
    layers = library.layers
    return library.Sequential(
        [
            layers.Conv2D(16, 3, padding="same", kernel_regularizer=library.regularizers.L2(1e-3)),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(10),
        ],
        name="net",
    )


def in_tf_keras(x):
    return use_keras(lambda: make(tf_keras))(x)


def in_keras(x):
    return use_keras(lambda: make(keras))(x)


class Network(ModelDesc):
    """Classifies digits by a network of another library."""

    def __init__(self, network):
        self.network = network

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        logits = self.network(tf.expand_dims(image, 3))
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.add(tf.reduce_mean(loss), regularize_cost_from_collection(), name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(5e-3)


class Accuracy(Callback):
    """Keeps the last validation accuracy."""

    def _trigger_epoch(self):
        self.value = self.trainer.monitors.get_latest("validation_accuracy")

    def consumes(self):
        return ["validation_accuracy"]


def train(network, trainer, log_dir, max_epoch=2, **options):
    accuracy = Accuracy()
    test = InferenceRunner(BatchData(Digits("test"), 128, remainder=True), ScalarStats("accuracy"))
    config = TrainConfig(
        model=Network(network),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[ModelSaver(), test, accuracy],
        steps_per_epoch=30,
        max_epoch=max_epoch,
        log_dir=log_dir,
        seed=3,
        **options,
    )
    TRAINERS[trainer](config).train()
    return load_variables(latest_checkpoint(log_dir)), accuracy.value


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["shared", "replicated"])
@pytest.mark.parametrize("network", [in_slim, in_tf_keras, in_keras], ids=["slim", "tf_keras", "keras"])
def test_a_network_of_another_library_trains(network, trainer, tmp_path):
    variables, accuracy = train(network, trainer, tmp_path / "log")
    assert accuracy > 0.85
    names = {"mean": "moving_mean", "variance": "moving_variance"}
    for part in names.values():
        (average,) = (value for name, value in variables.items() if name.endswith(part))
        assert np.abs(average - (part == "moving_variance")).max() > 0.01
    assert not any(name.startswith("tower") for name in variables)


@pytest.mark.slow
def test_a_kept_model_of_keras(tmp_path):
    """It is the same for towers that share its variables and for those that have copies."""
    network = use_keras(make(keras))
    shared, _ = train(network, "shared", tmp_path / "shared", max_epoch=1)
    replicated, _ = train(network, "replicated", tmp_path / "replicated", max_epoch=1)
    assert shared.keys() == replicated.keys()
    for name, value in shared.items():
        np.testing.assert_allclose(value, replicated[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_a_resumed_run_draws_the_masks_of_keras_again(tmp_path):
    keras.utils.set_random_seed(1)
    whole, _ = train(in_keras, "one", tmp_path / "whole")
    keras.utils.set_random_seed(1)
    train(in_keras, "one", tmp_path / "resumed", max_epoch=1)
    keras.utils.set_random_seed(2)
    resumed, _ = train(in_keras, "one", tmp_path / "resumed", resume="auto")
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, resumed[name], err_msg=name)


class Scale(tf.Module):
    """A module with a variable outside of the tower's scope."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(1.0)


@pytest.mark.parametrize(
    "network, error",
    [
        (lambda x: make(keras)(x), KerasLayerError),
        (lambda x: make(tf_keras)(x, training=True), KerasLayerError),
        (lambda x: tf.reshape(x, [-1, 64])[:, :10] * Scale().scale, TowerRuleError),
        (lambda x: keras.layers.Dense(10)(tf.reshape(x, [-1, 64])), TowerRuleError),
    ],
    ids=["keras", "tf_keras", "module", "layer"],
)
@pytest.mark.parametrize("trainer", ["shared", "replicated"])
def test_what_cannot_work_says_so(network, error, trainer, tmp_path):
    flow, log_dir = BatchData(Digits("train"), 32), tmp_path / "log"
    config = TrainConfig(
        model=Network(network), dataflow=flow, steps_per_epoch=1, max_epoch=1, log_dir=log_dir
    )
    with pytest.raises(error):
        TRAINERS[trainer](config).train()
