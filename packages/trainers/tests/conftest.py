"""Small models and data shared by tests of trainers."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import BatchNorm, Dropout, FullyConnected
from towerpack_trainers import ModelDesc, TrainConfig, Trainer
from towerpack_trainers.testing import FailAt, FinalVariables, Recorder

# Sizes TensorFlow's thread pools before any test's eager op: the first trainer after one would warn.
Trainer(log_dir=None)


class Line(ModelDesc):
    """y = slope * x, exactly solvable; with a tensor "cost" and one "error" per example."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        error = tf.subtract(x * slope, y, name="error")
        cost = tf.reduce_mean(tf.square(error), name="cost")
        if self.training:
            add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.05)


class Net(ModelDesc):
    """Two layers with batch normalisation that classify which half of the input is larger."""

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        hidden = tf.nn.relu(BatchNorm("bn", FullyConnected("fc0", image, 8)))
        logits = FullyConnected("fc1", hidden, 2)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        tf.identity(logits, name="logits")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def line_data(batches=5, size=4, seed=0):
    """Batches of x and 3x."""
    xs = np.random.default_rng(seed).normal(size=(batches, size)).astype(np.float32)
    return [[x, 3 * x] for x in xs]


def net_data(batches=6, size=8, seed=0):
    """Batches of four numbers, and whether the last two are the larger ones."""
    xs = np.random.default_rng(seed).normal(size=(batches, size, 4)).astype(np.float32)
    return [[x, (x[:, 2:].sum(1) > x[:, :2].sum(1)).astype(np.int32)] for x in xs]


class Random(Net):
    """Draws a dropout mask at each step."""

    def build_graph(self, image, label):
        hidden = Dropout("dropout", FullyConnected("fc0", image, 16, activation=tf.nn.relu), rate=0.5)
        logits = FullyConnected("fc1", hidden, 2)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(loss, name="cost")
        if self.training:
            add_moving_summary(cost)
        return cost


def net_flow(size=24, batch=4):
    """The same as single examples, shuffled and batched by a flow with a position."""
    [[images, labels]] = net_data(1, size)
    return BatchData(DataFromList(list(zip(images, labels)), shuffle=True), batch)


class Nothing(tf.train.SessionRunHook):
    """Makes the loop call it at each run."""

    def before_run(self, run_context):
        return None

    def after_run(self, run_context, run_values):
        return None


def assert_same(one, other):
    """Checks that the weights of two trainings are equal to the last bit."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture
def kit():
    """The models and data above, and callbacks of the kit; test modules cannot import one another."""
    things = (Line, Net, Random, line_data, net_data, net_flow, Nothing, Recorder, FailAt, assert_same)
    return SimpleNamespace(Weights=FinalVariables, **{thing.__name__: thing for thing in things})


@pytest.fixture(autouse=True)
def leave_nothing_behind():
    """Checks after each test that no thread of ours is left and that eager execution is unchanged."""
    before = set(threading.enumerate())
    yield
    assert not set(threading.enumerate()) - before
    assert tf.executing_eagerly()
    assert tf.compat.v1.get_default_graph().version == 0


@pytest.fixture
def configure(tmp_path):
    """Makes a TrainConfig for `Line` with nothing printed; keyword arguments replace its own."""

    def make(**changes):
        values = {
            "model": Line(),
            "dataflow": line_data(),
            "max_epoch": 2,
            "log_dir": tmp_path / "run",
            "extra_callbacks": [],
            "monitors": [],
            "seed": 1,
        }
        values.update(changes)
        if "data" in changes:
            values.pop("dataflow")
        return TrainConfig(**values)

    return make
