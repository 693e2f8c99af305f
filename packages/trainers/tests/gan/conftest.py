"""Small adversarial models shared by tests of their trainers."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import BatchNorm, FullyConnected, random_normal
from towerpack_trainers.gan import GANCosts, GANModelDesc, non_saturating_costs

RATE_OF_G, RATE_OF_D = 0.125, 0.25  # exact in float32, which optimizers keep them in


class Parabola(GANModelDesc):
    """fake = w z against D(x) = a x + b x^2, whose gradients are known; z is an input."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float64, "real"), tf.TensorSpec([None], tf.float64, "z")]

    def build_graph(self, real, z):
        with tf.variable_scope("gen"):
            fake = variable("w", 0.5) * z
        with tf.variable_scope("discrim"):
            a, b = variable("a", 0.3), variable("b", -0.2)
        scores = [tf.reduce_mean(a * x + b * x**2) for x in (real, fake)]
        weights = (a**2 + b**2) / 2
        costs = -scores[1], scores[1] - scores[0] + weights
        return GANCosts(tf.identity(costs[0]), tf.identity(costs[1], "discriminator_cost"))

    def optimizers(self):
        return tf.train.GradientDescentOptimizer(RATE_OF_G), tf.train.GradientDescentOptimizer(RATE_OF_D)


def variable(name, value):
    return tf.get_variable(name, [], tf.float64, tf.constant_initializer(value))


def parabola_data(number=24, batch=4, seed=0):
    """Batches of real numbers and noise, in order."""
    numbers = np.random.default_rng(seed).normal([1.0, 0.0], size=(number, 2))
    return BatchData(DataFromList([list(row) for row in numbers], shuffle=False), batch)


def play(batches, rounds, d_steps, g_steps, limit=np.inf):
    """Returns w, a and b after rounds of `Parabola`, computed by hand; a and b are clipped to a limit."""
    w, a, b = 0.5, *np.clip([0.3, -0.2], -limit, limit)
    batches = iter(batches)
    for _ in range(rounds):
        before = (a, b)
        for _ in range(d_steps):
            real, z = next(batches)
            fake = w * z
            slope_a = fake.mean() - real.mean() + a
            slope_b = (fake**2).mean() - (real**2).mean() + b
            a, b = np.clip([a - RATE_OF_D * slope_a, b - RATE_OF_D * slope_b], -limit, limit)
        seen = before if d_steps == g_steps == 1 else (a, b)
        for _ in range(g_steps):
            w += RATE_OF_G * (seen[0] * z + 2 * seen[1] * w * z**2).mean()
    return w, a, b


class Digits(GANModelDesc):
    """Two layers each, with batch normalisation and random noise."""

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "real")]

    def build_graph(self, real):
        noise = random_normal("noise", [tf.shape(real)[0], 3])
        z = tf.placeholder_with_default(noise, [None, 3], "z")
        with tf.variable_scope("gen"):
            hidden = tf.nn.relu(BatchNorm("bn", FullyConnected("fc0", z, 8)))
            fake = FullyConnected("fc1", hidden, 4)
        with tf.variable_scope("discrim"):
            real_logits = judge(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = judge(fake)
        return non_saturating_costs(real_logits, fake_logits)

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-2, beta1=0.5), tf.train.AdamOptimizer(2e-2, beta1=0.5)


def judge(x):
    return FullyConnected("fc1", tf.nn.relu(BatchNorm("bn", FullyConnected("fc0", x, 8))), 1)


def digits_data(number=48, batch=4):
    """Shuffled batches, from a flow with a position."""
    numbers = np.random.default_rng(0).normal(size=(number, 4)).astype(np.float32)
    return BatchData(DataFromList([[row] for row in numbers], shuffle=True), batch)


class Trajectory(Callback):
    """Records the variables' values after every step."""

    def __init__(self):
        self.values = []

    def _trigger_step(self):
        self.values.append(snapshot_variables(self.trainer.sess, self.graph.get_collection("variables")))


@pytest.fixture
def gan():
    """The models and data above; test modules cannot import one another."""
    things = (Parabola, parabola_data, play, Digits, digits_data, Trajectory)
    return SimpleNamespace(**{thing.__name__: thing for thing in things})
