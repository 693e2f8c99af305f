"""A network trained with nothing but this package, TensorFlow and a plain session."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    Conv2D,
    LinearWrap,
    TowerContext,
    argscope,
    l2_regularizer,
    regularize_cost,
)


def lenet(image: tf.Tensor) -> tf.Tensor:
    with argscope(Conv2D, filters=8, kernel_size=3, activation=tf.nn.relu), argscope(BatchNorm, momentum=0.7):
        return (
            LinearWrap(image)
            .Conv2D("conv0")
            .MaxPooling("pool0", 2)
            .Conv2D("conv1")
            .BatchNorm("bn")
            .FullyConnected("fc0", 32, activation=tf.nn.relu)
            .Dropout("dropout", rate=0.3)
            .FullyConnected("fc1", 2)()
        )


def separable(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, with a bright corner in the images of class 1."""
    label = rng.integers(2, size=count)
    image = rng.normal(size=[count, 8, 8, 1]).astype("f4")
    image[label == 1, :4, :4] += 2.0
    return image, label


@pytest.mark.slow
def test_lenet_learns_separable_data(graph: tf.Graph) -> None:
    rng = np.random.default_rng(0)
    image, label = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int32, [None])
    with TowerContext("", is_training=True):
        cost = tf.losses.sparse_softmax_cross_entropy(label, lenet(image))
        cost += regularize_cost("fc.*/W", l2_regularizer(1e-4))
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        predicted = tf.argmax(lenet(image), 1)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(3e-3).minimize(cost)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = []
        for _ in range(60):
            x, y = separable(rng, 32)
            losses.append(session.run([cost, train], {image: x, label: y})[0])
        x, y = separable(rng, 200)
        accuracy = np.mean(session.run(predicted, {image: x}) == y)
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
    assert accuracy > 0.95


@pytest.mark.slow
def test_the_lenet_of_tensorpacks_overview_trains(graph: tf.Graph) -> None:
    """As it is written there, in spellings of old; each of them is told."""
    rng = np.random.default_rng(0)
    image, label = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int32, [None])
    with TowerContext("", is_training=True), pytest.warns(DeprecationWarning) as caught:
        # fmt: off
        logits = (LinearWrap(image) # the starting brace is only for line-breaking
                  .Conv2D('conv0', 32, 3, nl=tf.nn.relu)
                  .MaxPooling('pool0', 2)
                  .Conv2D('conv1', 32, 3, nl=tf.nn.relu)
                  .Conv2D('conv2', 32, 3, nl=tf.nn.relu)
                  .MaxPooling('pool1', 2)
                  .Conv2D('conv3', 32, 3, nl=tf.nn.relu)
                  .FullyConnected('fc0', out_dim=512, nl=tf.nn.relu)
                  .Dropout('dropout', 0.5)
                  .FullyConnected('fc1', out_dim=10, nl=tf.identity)())
        # fmt: on
    told = {str(warning.message).partition(": ")[2] for warning in caught}
    assert told == {
        "nl= is an old spelling; write activation=",
        "out_dim= is an old spelling; write units=",
        "keep_prob=, also as a positional number, is an old spelling; write rate=0.5",
    }
    cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
    train = tf.train.AdamOptimizer(1e-3).minimize(cost)
    layers = ("conv0", "conv1", "conv2", "conv3", "fc0", "fc1")
    assert [v.op.name for v in tf.trainable_variables()] == [f"{name}/{v}" for name in layers for v in "Wb"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = []
        for _ in range(12):
            x, y = separable(rng, 32)
            losses.append(session.run([cost, train], {image: x, label: y})[0])
    assert np.mean(losses[-3:]) < 0.7 * losses[0]
