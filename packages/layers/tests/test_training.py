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
