"""Several towers, through the installed wheels, as a user starts them."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import BatchNorm, Conv2D, FullyConnected
from towerpack_trainers import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
)

TWO = ["/cpu:0", "/cpu:1"]


class Synced(ModelDesc):
    """A small network that normalises over the batches of all towers."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        x = Conv2D("conv", tf.expand_dims(image, 3), 8, 3)
        x = tf.nn.relu(BatchNorm("bn", x, sync_statistics=True))
        logits = FullyConnected("fc", x, 10)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


class Accuracy(Callback):
    """Keeps the last validation accuracy."""

    def _trigger_epoch(self):
        self.value = self.trainer.monitors.get_latest("validation_accuracy")

    def consumes(self):
        return ["validation_accuracy"]


@pytest.mark.slow
def test_two_towers_with_synchronised_statistics_are_one_with_their_batches(tmp_path):
    """On real data, over an epoch, through the checkpoint: what is saved is what one tower saves."""
    ends = []
    for name, batch, make in (
        ("one", 32, SimpleTrainer),
        ("shared", 16, lambda config: SyncMultiGPUTrainerParameterServer(config, TWO)),
        ("replicated", 16, lambda config: SyncMultiGPUTrainerReplicated(config, TWO, mode="hierarchical")),
    ):
        accuracy = Accuracy()
        test = InferenceRunner(BatchData(Digits("test"), 128, remainder=True), ScalarStats("accuracy"))
        config = TrainConfig(
            model=Synced(),
            dataflow=BatchData(Digits("train"), batch),
            callbacks=[ModelSaver(), test, accuracy],
            steps_per_epoch=40,
            max_epoch=1,
            log_dir=tmp_path / name,
            seed=3,
        )
        make(config).train()
        ends.append((load_variables(latest_checkpoint(tmp_path / name)), accuracy.value))
    (one, reached), *others = ends
    assert reached > 0.85
    for variables, accuracy in others:
        assert variables.keys() == one.keys()
        assert accuracy == pytest.approx(reached, abs=0.01)
        for name, value in one.items():
            np.testing.assert_allclose(variables[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainer", ["replicated", *(pytest.param(name, marks=pytest.mark.long) for name in ("sync", "async"))]
)
def test_the_example_trains_on_two_virtual_devices(run, trainer, tmp_path):
    output, errors = run("cifar_multi_gpu.py", "--devices", *TWO, "--trainer", trainer, "--epochs", 3)
    assert "2 towers, one batch for each: one step trains on 2 datapoints" in errors
    accuracy = float(re.search(r"best validation accuracy (0\.\d{4})", output)[1])
    assert accuracy > 0.6
    assert latest_checkpoint(tmp_path / "train_log" / "cifar_multi_gpu") is not None


@pytest.mark.long
@pytest.mark.slow
def test_a_loop_of_ones_own(run):
    output, _ = run("own_loop_multi_gpu.py", "--devices", *TWO, "--steps", 200)
    assert "on 2 devices" in output
    assert float(re.search(r"final accuracy (\d\.\d{3})", output)[1]) > 0.85
