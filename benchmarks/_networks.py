"""Networks that benchmarks build or train."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    LinearWrap,
    MaxPooling,
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
    """ResNet-50 after He et al. (2016), arXiv:1512.03385, with its stride in the 3 x 3 convolutions."""
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = Conv2D("conv0", image, 64, 7, strides=2)
        x = MaxPooling("pool0", x, 3, 2, padding="same")
        for group, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            for block in range(blocks):
                with tf.variable_scope(f"group{group}/block{block}"):
                    x = _bottleneck(x, width, 2 if group and not block else 1)
        logits = FullyConnected("fc", GlobalAvgPooling("gap", x), 1000)
    return mean_loss(logits, label)


def _bottleneck(x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
    shortcut = x
    if stride > 1 or x.shape[-1] != 4 * width:
        shortcut = Conv2D("shortcut", x, 4 * width, 1, strides=stride, activation=_normalise)
    y = Conv2D("conv1", x, width, 1)
    y = Conv2D("conv2", y, width, 3, strides=stride)
    y = Conv2D("conv3", y, 4 * width, 1, activation=_normalise)
    return tf.nn.relu(y + shortcut)


def _normalise(x: tf.Tensor) -> tf.Tensor:
    return BatchNorm("bn", x)
