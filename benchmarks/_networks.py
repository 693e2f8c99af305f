"""Networks that benchmarks build or train."""

from __future__ import annotations

import _kits
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BNReLU,
    Conv2D,
    LinearWrap,
    argscope,
)

SPECS = [tf.TensorSpec([None, 32, 32, 3], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def mean_loss(logits: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """The mean cross entropy."""
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
    return tf.reduce_mean(loss, name="cost")


def convnet(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Six convolutions for pictures of 32 x 32, with batch normalisation: 0.29 million weights."""
    with argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU):
        logits = (
            LinearWrap(image)
            .Conv2D("conv0", 32)
            .Conv2D("conv1", 32)
            .MaxPooling("pool0", 2)
            .Conv2D("conv2", 64)
            .Conv2D("conv3", 64)
            .MaxPooling("pool1", 2)
            .Conv2D("conv4", 128)
            .Conv2D("conv5", 128)
            .GlobalAvgPooling("gap")
            .FullyConnected("fc", 10)()
        )
    return mean_loss(logits, label)


def resnet50(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """ResNet-50 for ImageNet."""
    return mean_loss(_kits.resnet50(_kits.Layers, image), label)
