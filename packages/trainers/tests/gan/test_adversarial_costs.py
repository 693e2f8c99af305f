"""The costs equal those of the papers, and the penalties those of known gradients."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext
from towerpack_trainers import ConfigError, ModelError
from towerpack_trainers.gan import (
    GANCosts,
    every_k_steps,
    gradient_penalty,
    hinge_costs,
    least_squares_costs,
    minimax_costs,
    non_saturating_costs,
    r1_penalty,
    wasserstein_costs,
)

REAL, FAKE = np.array([[1.5], [-0.3]]), np.array([[0.4], [-2.0]])


def log_probability(logits):
    return -np.log1p(np.exp(-logits))


# From the definitions, with probabilities where they use them: generator, discriminator.
EXPECTED = {
    minimax_costs: (
        log_probability(-FAKE).mean(),
        -log_probability(REAL).mean() - log_probability(-FAKE).mean(),
    ),
    non_saturating_costs: (
        -log_probability(FAKE).mean(),
        -log_probability(REAL).mean() - log_probability(-FAKE).mean(),
    ),
    hinge_costs: (
        -FAKE.mean(),
        np.maximum(0, 1 - REAL).mean() + np.maximum(0, 1 + FAKE).mean(),
    ),
    least_squares_costs: (
        ((FAKE - 1) ** 2).mean() / 2,
        ((REAL - 1) ** 2).mean() / 2 + (FAKE**2).mean() / 2,
    ),
    wasserstein_costs: (-FAKE.mean(), FAKE.mean() - REAL.mean()),
}


@pytest.mark.parametrize("costs", EXPECTED, ids=lambda costs: costs.__name__)
def test_costs_of_the_papers(costs):
    with tf.Graph().as_default(), tf.Session() as session:
        made = costs(tf.constant(REAL), tf.constant(FAKE))
        found = session.run([made.generator, made.discriminator])
    assert found == pytest.approx(EXPECTED[costs])
    assert made.generator.op.name == "generator_cost"


@pytest.mark.parametrize("costs", EXPECTED, ids=lambda costs: costs.__name__)
def test_outputs_must_be_float_tensors(costs):
    with tf.Graph().as_default():
        with pytest.raises(ModelError, match=r"\(fake=\.\.\.\) takes a float tensor"):
            costs(tf.constant(REAL), tf.constant([1]))
        with pytest.raises(ModelError, match=r"\(real=\.\.\.\) takes a float tensor"):
            costs(REAL, tf.constant(FAKE))


def test_costs_are_scalars():
    with tf.Graph().as_default():
        scalar = tf.constant(1.0)
        with pytest.raises(ModelError, match=r"GANCosts\(discriminator=\.\.\.\) takes a scalar cost"):
            GANCosts(scalar, tf.constant([1.0]))
        with pytest.raises(ModelError, match=r"GANCosts\(generator=\.\.\.\) takes the cost"):
            GANCosts(1.0, scalar)


def test_penalties_of_a_plane():
    slope = np.array([3.0, 4.0])  # of norm 5
    real, fake = np.random.default_rng(0).normal(size=(2, 6, 2))
    with tf.Graph().as_default(), tf.Session() as session:

        def plane(x):
            return tf.tensordot(x, slope, 1)

        one, other = tf.constant(real), tf.constant(fake)
        penalties = [
            gradient_penalty(plane, one, other),
            gradient_penalty(plane, one, other, target=0.0, name="zero"),
            r1_penalty(plane, one),
        ]
        assert session.run(penalties) == pytest.approx([16.0, 25.0, 12.5])


def test_points_are_between_and_differ_at_each_step():
    with tf.Graph().as_default(), tf.Session() as session:
        seen = []

        def square(x):
            seen.append(x)
            return tf.reduce_sum(x**2, [1, 2])

        gradient_penalty(square, tf.zeros([8, 2, 3]), tf.ones([8, 2, 3]))
        first, second = session.run(seen[0]), session.run(seen[0])
    for points in (first, second):
        assert np.ptp(points, axis=(1, 2)) == pytest.approx(0)
        assert len(set(points[:, 0, 0])) == 8 and 0 <= points.min() < points.max() < 1
    assert not np.array_equal(first, second)


def test_a_zero_gradient_has_a_finite_derivative():
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        penalty = gradient_penalty(lambda x: weight * x[:, 0], tf.ones([2, 1]), tf.zeros([2, 1]))
        [slope] = tf.gradients(penalty, [weight])
        session.run(tf.global_variables_initializer())
        assert session.run([penalty, slope]) == pytest.approx([1.0, 0.0], abs=1e-5)


def test_a_critic_that_ignores_its_input():
    with tf.Graph().as_default():
        score = tf.constant([1.0])
        for penalty in (lambda: r1_penalty(lambda x: score, score), lambda: penalize_nothing(score)):
            with pytest.raises(ModelError, match="does not depend on its input"):
                penalty()
        with pytest.raises(ModelError, match=r"real has shape \(2, 3\) and fake has shape \(2, 4\)"):
            gradient_penalty(tf.identity, tf.zeros([2, 3]), tf.zeros([2, 4]))


def penalize_nothing(score):
    return gradient_penalty(lambda x: score, score, score)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_a_lazy_penalty_counts_as_often_as_it_is_left_out(dtype):
    computed = []
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()

        def penalty():
            [kept] = tf.numpy_function(lambda: (computed.append(1), np.array(2.0))[1:], [], [tf.float64])
            return tf.cast(tf.ensure_shape(kept, []), dtype)

        with TowerContext("", is_training=True):
            lazy = every_k_steps(3, penalty)
        session.run(tf.global_variables_initializer())
        found = []
        for number in range(7):
            step.load(number, session)
            found.append(session.run(lazy))
    assert found == [6, 0, 0, 6, 0, 0, 6] and len(computed) == 3


def test_the_period_of_a_lazy_penalty():
    with tf.Graph().as_default():
        assert every_k_steps(1, lambda: "penalty") == "penalty"
        with pytest.raises(ConfigError, match=r"every_k_steps.*k=0"):
            every_k_steps(0, lambda: None)
