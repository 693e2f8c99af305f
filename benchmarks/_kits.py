"""The building blocks of the networks of benchmarks/layers.py: from this project's layers, and by hand.

A network is written once, over a kit; both kits make the same variables and compute the same.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import (
    LSTM,
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
)


class Layers:
    """This project's layers."""

    @staticmethod
    def conv(name: str, x: Any, filters: int, size: int, stride: int = 1, relu: bool = True) -> Any:
        """Convolution and batch normalisation."""
        activation = BNReLU if relu else _normalised
        return Conv2D(name, x, filters, size, strides=stride, use_bias=False, activation=activation)

    @staticmethod
    def max_pool(name: str, x: Any, size: int, stride: int, padding: str = "valid") -> Any:
        """The largest values of windows."""
        return MaxPooling(name, x, size, stride, padding=padding)

    @staticmethod
    def mean_pool(name: str, x: Any) -> Any:
        """The mean over height and width."""
        return GlobalAvgPooling(name, x)

    @staticmethod
    def dense(name: str, x: Any, units: int) -> Any:
        """A fully connected layer."""
        return FullyConnected(name, x, units)

    @staticmethod
    def lstm(name: str, x: Any, units: int) -> Any:
        """The outputs of an LSTM at all times."""
        return LSTM(name, x, units)


def _normalised(x: Any) -> Any:
    return BatchNorm("bn", x)


class ByHand:
    """`tf.nn` and `tf.get_variable`, as a user without a library of layers writes them."""

    @staticmethod
    def conv(name: str, x: Any, filters: int, size: int, stride: int = 1, relu: bool = True) -> Any:
        """Convolution and batch normalisation."""
        with tf.variable_scope(name):
            he = tf.variance_scaling_initializer(2.0, distribution="untruncated_normal")
            kernel = tf.get_variable("W", [size, size, x.shape[-1], filters], initializer=he)
            x = tf.nn.conv2d(x, kernel, strides=stride, padding="SAME")
            with tf.variable_scope("bn"):
                x = _batch_norm(x, filters)
            return tf.identity(tf.nn.relu(x) if relu else x, "output")

    @staticmethod
    def max_pool(name: str, x: Any, size: int, stride: int, padding: str = "valid") -> Any:
        """The largest values of windows."""
        return tf.nn.max_pool2d(x, size, stride, padding.upper(), name=name)

    @staticmethod
    def mean_pool(name: str, x: Any) -> Any:
        """The mean over height and width."""
        return tf.reduce_mean(x, [1, 2], name=name)

    @staticmethod
    def dense(name: str, x: Any, units: int) -> Any:
        """A fully connected layer."""
        x = tf.reshape(x, [-1, x.shape[1:].num_elements()])
        with tf.variable_scope(name):
            he = tf.variance_scaling_initializer(2.0, distribution="untruncated_normal")
            weights = tf.get_variable("W", [x.shape[1], units], initializer=he)
            bias = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
            return tf.nn.bias_add(x @ weights, bias, name="output")

    @staticmethod
    def lstm(name: str, x: Any, units: int) -> Any:
        """The outputs of an LSTM at all times, its steps written out one after the other."""
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", [x.shape[-1] + units, 4 * units])
            bias = tf.get_variable("bias", [4 * units], initializer=tf.zeros_initializer())
            output = cell = tf.zeros([tf.shape(x)[0], units])
            outputs = []
            for step in tf.unstack(x, axis=1):
                gates = tf.nn.bias_add(tf.concat([step, output], 1) @ kernel, bias)
                put, new, forget, out = tf.split(gates, 4, axis=1)
                cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(put) * tf.tanh(new)
                output = tf.sigmoid(out) * tf.tanh(cell)
                outputs.append(output)
            return tf.stack(outputs, axis=1)


def _batch_norm(x: Any, channels: int) -> Any:
    ones, zeros = tf.ones_initializer(), tf.zeros_initializer()
    gamma = tf.get_variable("gamma", [channels], initializer=ones)
    beta = tf.get_variable("beta", [channels], initializer=zeros)
    averages = [
        tf.get_variable("mean/EMA", [channels], initializer=zeros, trainable=False),
        tf.get_variable("variance/EMA", [channels], initializer=ones, trainable=False),
    ]
    x, *statistics = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-5, is_training=True)
    for average, value in zip(averages, statistics):
        move = tf.assign_sub(average, (average - value) * 0.1)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, move)
    return x


def vgg(kit: Any, image: Any) -> Any:
    """Eight convolutions and two dense layers for pictures of 32 x 32, after VGG."""
    x = image
    for stage, (filters, count) in enumerate([(64, 2), (128, 2), (256, 4)]):
        for index in range(count):
            x = kit.conv(f"conv{stage}{index}", x, filters, 3)
        x = kit.max_pool(f"pool{stage}", x, 2, 2)
    return kit.dense("fc1", tf.nn.relu(kit.dense("fc0", x, 512)), 10)


def resnet(kit: Any, image: Any, counts: list[int], bottleneck: bool, classes: int) -> Any:
    """A residual network after He et al. (2016); small pictures keep their size up to the first group."""
    if image.shape[1] < 64:
        x = kit.conv("conv0", image, 64, 3)
    else:
        x = kit.max_pool("pool0", kit.conv("conv0", image, 64, 7, 2), 3, 2, "same")
    for group, count in enumerate(counts):
        for index in range(count):
            with tf.variable_scope(f"group{group}/block{index}"):
                x = _block(kit, x, 64 * 2**group, 2 if group and not index else 1, bottleneck)
    return kit.dense("linear", kit.mean_pool("gap", x), classes)


def _block(kit: Any, x: Any, filters: int, stride: int, bottleneck: bool) -> Any:
    if bottleneck:
        y = kit.conv("conv1", x, filters, 1)
        y = kit.conv("conv2", y, filters, 3, stride)
        y = kit.conv("conv3", y, 4 * filters, 1, relu=False)
    else:
        y = kit.conv("conv1", x, filters, 3, stride)
        y = kit.conv("conv2", y, filters, 3, relu=False)
    if stride > 1 or x.shape[-1] != y.shape[-1]:
        x = kit.conv("convshortcut", x, y.shape[-1], 1, stride, relu=False)
    return tf.nn.relu(x + y)


def resnet18(kit: Any, image: Any) -> Any:
    """ResNet-18 for pictures of 32 x 32."""
    return resnet(kit, image, [2, 2, 2, 2], bottleneck=False, classes=10)


def resnet50(kit: Any, image: Any) -> Any:
    """ResNet-50."""
    return resnet(kit, image, [3, 4, 6, 3], bottleneck=True, classes=1000)


VOCABULARY, UNITS, TIMES = 64, 64, 32


def two_lstms(kit: Any, symbols: Any) -> Any:
    """Two LSTMs of 64 units over 32 symbols, and the logits of each next symbol."""
    table = tf.get_variable("embedding", [VOCABULARY, UNITS])
    x = tf.nn.embedding_lookup(table, symbols)
    for name in ("lstm0", "lstm1"):
        x = kit.lstm(name, x, UNITS)
    return kit.dense("linear", tf.reshape(x, [-1, UNITS]), VOCABULARY)
