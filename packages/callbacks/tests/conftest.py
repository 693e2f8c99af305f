"""A tiny training that tests of callbacks run in, without any trainer."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import as_session_hooks


class StraightLine:
    """Moves `weight` towards 1; "cost" is the squared distance, "twice" twice the number of steps."""

    def __init__(self, log_dir):
        self.log_dir = log_dir
        self.graph = tf.Graph()
        with self.graph.as_default():
            step = tf.train.get_or_create_global_step()
            weight = tf.get_variable("weight", shape=(), initializer=tf.zeros_initializer())
            cost = tf.square(weight - 1.0, name="cost")
            self.train_op = tf.train.GradientDescentOptimizer(0.1).minimize(cost)
            tf.multiply(step, 2, name="twice")

    def run(self, callbacks, steps_per_epoch=3, max_epoch=2, monitors=(), steps=None):
        """Trains with callbacks and returns the number of steps."""
        with self.graph.as_default():
            hooks = as_session_hooks(
                callbacks,
                steps_per_epoch=steps_per_epoch,
                max_epoch=max_epoch,
                log_dir=self.log_dir,
                monitors=monitors,
            )
            done = 0
            with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
                while not sess.should_stop() and done != steps:
                    sess.run(self.train_op)
                    done += 1
        return done


@pytest.fixture(scope="session")
def straight_line():
    """The class itself, for tests that need more than one training."""
    return StraightLine


@pytest.fixture
def line(tmp_path):
    """A fresh small training whose files go to a temporary directory."""
    return StraightLine(tmp_path)
