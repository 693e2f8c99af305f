"""Layers with a plain graph and a plain session: LeNet trains on digits."""

import importlib.util

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import Conv2D, LinearWrap, TowerContext, argscope


def lenet(image):
    with argscope(Conv2D, filters=16, kernel_size=3, activation=tf.nn.relu):
        return (
            LinearWrap(tf.expand_dims(image, 3))
            .Conv2D("conv0")
            .MaxPooling("pool0", 2)
            .Conv2D("conv1")
            .MaxPooling("pool1", 2)
            .FullyConnected("fc0", 64, activation=tf.nn.relu)
            .Dropout("dropout", rate=0.5)
            .FullyConnected("fc1", 10)()
        )


@pytest.mark.parametrize("name", ["towerpack_trainers", "towerpack_callbacks", "towerpack_inputsource"])
def test_the_other_wheels_are_not_here(name):
    assert importlib.util.find_spec(name) is None


def test_lenet_learns_digits():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        image, label = tf.placeholder(tf.float32, [None, 8, 8]), tf.placeholder(tf.int32, [None])
        with TowerContext("", is_training=True):
            cost = tf.losses.sparse_softmax_cross_entropy(label, lenet(image))
        with TowerContext("evaluation", is_training=False, reuse=True):
            answer = tf.argmax(lenet(image), 1)
        train_op = tf.train.AdamOptimizer(3e-3).minimize(cost)
        session.run(tf.global_variables_initializer())
        train, test = BatchData(Digits("train"), 32), BatchData(Digits("test"), 512, remainder=True)
        train.seed(1)
        for _ in range(5):
            for images, labels in train:
                session.run(train_op, {image: images, label: labels})
        [(images, labels)] = test
        assert np.mean(session.run(answer, {image: images}) == labels) > 0.93
        names = [variable.op.name for variable in tf.trainable_variables()]
    assert names == [f"{layer}/{part}" for layer in ("conv0", "conv1", "fc0", "fc1") for part in ("W", "b")]
