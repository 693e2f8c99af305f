"""Gradients are found as the optimizer applies them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, GradientNorm, as_session_hooks
from towerpack_callbacks.graph import find_applied_gradients

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "centred": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
}


def train(optimizer, callbacks, clip=None):
    """Trains a = 1 and b = [2, 2] on cost = 3a + 4(b0 + b1), whose gradient is constant."""
    with tf.Graph().as_default():
        a = tf.get_variable("a", [], initializer=tf.ones_initializer())
        b = tf.get_variable("b", [2], initializer=tf.constant_initializer(2.0))
        pairs = optimizer.compute_gradients(3 * a + 4 * tf.reduce_sum(b))
        if clip is not None:
            gradients, variables = zip(*pairs)
            pairs = list(zip(tf.clip_by_global_norm(gradients, clip)[0], variables))
        train_op = optimizer.apply_gradients(pairs)
        hooks = as_session_hooks(callbacks, steps_per_epoch=2, max_epoch=2)
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(train_op)


class History(Callback):
    """Keeps what was put."""

    def __init__(self, *names):
        self.names = names

    def consumes(self):
        return self.names

    def _after_train(self):
        self.values = {name: self.trainer.monitors.get_history(name) for name in self.names}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_norm_of_applied_gradients(name):
    history = History("gradient_norm", "gradient_norm/a", "gradient_norm/b")
    train(OPTIMIZERS[name](), [GradientNorm(per_variable=True), history])
    for stat, expected in zip(history.names, [np.sqrt(9 + 32), 3, np.sqrt(32)]):
        assert history.values[stat] == [(2, pytest.approx(expected)), (4, pytest.approx(expected))]


def test_clipped_gradients_count_at_due_steps():
    history = History("gradient_norm")
    train(OPTIMIZERS["adam"](), [GradientNorm(every="1 step"), history], clip=0.5)
    assert history.values["gradient_norm"] == [(step, pytest.approx(0.5)) for step in (1, 2, 3, 4)]


def test_sparse_gradients():
    with tf.Graph().as_default() as graph:
        table = tf.get_variable("table", [5, 2], initializer=tf.ones_initializer())
        cost = tf.reduce_sum(tf.gather(table, [1, 3, 3]))
        tf.train.AdagradOptimizer(0.1).minimize(cost)
        (found,) = find_applied_gradients(graph)
        assert found.variable is table
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(sess.run(found.gradient), [[1, 1], [2, 2]])


def test_a_graph_without_an_optimizer(line):
    with line.graph.as_default():
        line.graph.clear_collection("trainable_variables")
    with pytest.raises(ValueError, match=r"finds no optimizer's update.*put the norm yourself"):
        line.run([GradientNorm()])
