"""Training in 16 bits on variables of 32."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, Conv2D, FullyConnected
from towerpack_trainers import (
    ModelError,
    OfflinePredictor,
    PredictConfig,
    SimpleTrainer,
    SmartInit,
    mixed_precision,
)
from towerpack_trainers.testing import FinalVariables


def brighter(kit, dtype):
    class Images(kit.Net):
        """Classifies which half of an image is brighter; computed in `dtype`."""

        def inputs(self):
            return [
                tf.TensorSpec([None, 8, 8, 1], tf.float32, "image"),
                tf.TensorSpec([None], tf.int32, "label"),
            ]

        def build_graph(self, image, label):
            with mixed_precision(dtype) if dtype is not None else tf.name_scope(None):
                hidden = Conv2D("conv0", image, 8, 4, strides=4, activation=tf.nn.relu)
                logits = FullyConnected("fc", BatchNorm("bn", hidden), 2)
            logits = tf.identity(tf.cast(logits, tf.float32), name="logits")
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(loss, name="cost")

    return Images()


def images(batches, size, seed=0):
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(batches, size, 8, 8, 1)).astype(np.float32)
    return [[x, (x[:, :, 4:].sum((1, 2, 3)) > x[:, :, :4].sum((1, 2, 3))).astype(np.int32)] for x in xs]


@pytest.mark.slow
def test_training_in_bfloat16_is_close_and_its_files_match_a_float32_model(kit, configure):
    data, (pixels, truth) = images(40, 32), images(1, 400, seed=9)[0]
    accuracy = {}
    for trained in (None, tf.bfloat16):
        kept = FinalVariables()
        model = brighter(kit, trained)
        SimpleTrainer(configure(model=model, dataflow=data, callbacks=[kept], max_epoch=3)).train()
        used = tf.bfloat16 if trained is None else None  # the other one reads its files
        predict = OfflinePredictor(
            PredictConfig(
                model=brighter(kit, used),
                session_init=SmartInit(kept.values),
                input_names=["image"],
                output_names=["logits"],
            )
        )
        accuracy[trained] = np.mean(np.argmax(predict(pixels)[0], 1) == truth)
    assert min(accuracy.values()) > 0.9, accuracy
    assert max(accuracy.values()) - min(accuracy.values()) < 0.05, accuracy


def test_a_cost_of_16_bits_is_refused(kit, configure):
    class Rounded(kit.Net):
        def build_graph(self, *inputs):
            return tf.cast(super().build_graph(*inputs), tf.bfloat16)

    with pytest.raises(ModelError, match=r"dtype bfloat16.*tf.cast\(logits, tf.float32\)"):
        SimpleTrainer(configure(model=Rounded()))
