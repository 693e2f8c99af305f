import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers.rl import Categorical, DiagonalGaussian

RANDOM = np.random.default_rng(5)
LOGITS = RANDOM.normal(size=(6, 3)).astype(np.float32)
MEAN, LOG_STD = RANDOM.normal(size=(6, 2)).astype(np.float32), np.float32([-0.5, 0.3])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def values(*tensors):
    with tf.Session() as session:
        return session.run(tensors)


def probabilities(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_the_formulas_of_choices():
    choices = np.array([0, 1, 2, 0, 1, 2])
    distribution = Categorical(tf.constant(LOGITS))
    log, entropy, mode = values(
        distribution.log_probability(tf.constant(choices)), distribution.entropy(), distribution.mode()
    )
    expected = probabilities(LOGITS)
    np.testing.assert_allclose(log, np.log(expected[np.arange(6), choices]), rtol=1e-5)
    np.testing.assert_allclose(entropy, -(expected * np.log(expected)).sum(1), rtol=1e-5)
    assert mode.tolist() == LOGITS.argmax(1).tolist()
    assert distribution.action_shape == [3]


def test_the_formulas_of_numbers():
    actions = RANDOM.normal(size=(6, 2)).astype(np.float32)
    distribution = DiagonalGaussian(tf.constant(MEAN), tf.constant(LOG_STD))
    log, entropy, mode = values(
        distribution.log_probability(tf.constant(actions)), distribution.entropy(), distribution.mode()
    )
    std = np.exp(LOG_STD.astype(np.float64))
    density = np.exp(-0.5 * ((actions - MEAN) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(log, np.log(density.prod(1)), rtol=1e-4)
    np.testing.assert_allclose(entropy, [np.log(std * math.sqrt(2 * math.pi * math.e)).sum()] * 6, rtol=1e-5)
    np.testing.assert_array_equal(mode, MEAN)
    assert distribution.action_shape == [2]


def test_an_impossible_choice_has_no_probability_and_adds_no_entropy():
    distribution = Categorical(tf.constant([[0.0, -np.inf]]))
    possible, impossible, entropy = values(
        distribution.log_probability(tf.constant([0])),
        distribution.log_probability(tf.constant([1])),
        distribution.entropy(),
    )
    assert (possible[0], impossible[0], entropy[0]) == (0, -np.inf, 0)


@pytest.mark.parametrize("kind", ["choices", "numbers"])
def test_draws_are_a_function_of_two_numbers(kind):
    tensor = tf.zeros([1000, 2])
    made = Categorical(tensor) if kind == "choices" else DiagonalGaussian(tensor, tf.zeros([2]))
    rng_key = tf.placeholder(tf.int64, [2])
    sample = made.sample(rng_key)
    assert sample.dtype == made.action_dtype
    with tf.Session() as session:
        one, same, other, seed = (
            session.run(sample, {rng_key: numbers}) for numbers in ([1, 2], [1, 2], [1, 3], [2, 2])
        )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any() and (one != seed).any()


def test_draws_have_the_distribution():
    logits = np.log(np.tile(np.float32([[0.2, 0.5, 0.3]]), (20_000, 1)))
    mean = np.tile(np.float32([[1.0, -2.0]]), (20_000, 1))
    rng_key = tf.constant([7, 8], tf.int64)
    choices, numbers = values(
        Categorical(tf.constant(logits)).sample(rng_key),
        DiagonalGaussian(tf.constant(mean), tf.constant(LOG_STD)).sample(rng_key),
    )
    np.testing.assert_allclose(np.bincount(choices) / len(choices), [0.2, 0.5, 0.3], atol=0.015)
    np.testing.assert_allclose(numbers.mean(0), mean[0], atol=0.04)
    np.testing.assert_allclose(numbers.std(0), np.exp(LOG_STD), rtol=0.03)
