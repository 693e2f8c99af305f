"""V-trace compared with a loop in NumPy, and with n-step returns for on-policy data."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ModelError
from towerpack_trainers.rl import Categorical, VTraceObjective, v_trace

BATCH, STEPS = 5, 7


def drawn(seed):
    """Log-ratios, rewards, discounts, values and valid steps; some episodes end, some steps only reset."""
    random = np.random.default_rng(seed)
    log_ratio, reward = random.normal(size=(2, BATCH, STEPS)).astype(np.float32)
    discount = np.where(random.random((BATCH, STEPS)) < 0.2, 0, 0.9).astype(np.float32)
    value = random.normal(size=(BATCH, STEPS + 1)).astype(np.float32)
    return log_ratio, reward, discount, value, random.random((BATCH, STEPS)) < 0.8


def in_graph(*arrays, **options):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(v_trace(*map(tf.constant, arrays), **options))


def by_definition(log_ratio, reward, discount, value, valid, clip_rho, clip_c):
    """The sums of equation 1 of the paper, term by term."""
    ratio = np.exp(log_ratio.astype(np.float64)) * valid
    rho, trace = np.minimum(ratio, clip_rho), np.minimum(ratio, clip_c)
    delta = rho * (reward + discount * value[:, 1:] - value[:, :-1])
    target = value.astype(np.float64).copy()
    for row in range(BATCH):
        for begin in range(STEPS):
            weight = 1.0
            for step in range(begin, STEPS):
                target[row, begin] += weight * delta[row, step]
                weight *= discount[row, step] * trace[row, step]
    return target[:, :-1], rho * (reward + discount * target[:, 1:] - value[:, :-1])


@pytest.mark.parametrize("clips", [(1.0, 1.0), (2.0, 0.7)])
def test_it_equals_the_definition_of_the_paper(clips):
    arrays, options = drawn(0), dict(zip(("clip_rho", "clip_c"), clips))
    found = in_graph(*arrays, **options)
    for part, expected in zip(found, by_definition(*arrays, **options)):
        np.testing.assert_allclose(part, expected, rtol=1e-4, atol=1e-5)


def test_on_policy_the_targets_are_n_step_returns():
    _, reward, discount, value, _ = drawn(1)
    found = in_graph(np.zeros_like(reward), reward, discount, value)
    target = value[:, -1]
    for step in reversed(range(STEPS)):
        target = reward[:, step] + discount[:, step] * target
        np.testing.assert_allclose(found.value_target[:, step], target, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.advantage[:, step], target - value[:, step], rtol=1e-4, atol=1e-5)


def test_a_truncated_episode_is_bootstrapped_and_a_reset_separates_episodes():
    reward, value = np.ones((1, 3), np.float32), np.float32([[1, 10, 100, 1000]])
    valid, discount = np.array([[True, False, True]]), np.full((1, 3), 0.5, np.float32)
    found = in_graph(np.zeros((1, 3), np.float32), reward, discount, value, valid)
    # The first step is bootstrapped with the value of the last observation, 10, regardless of later steps.
    assert found.value_target.tolist() == [[6, 10, 501]]
    assert found.advantage.tolist() == [[5, 0, 401]]


def test_no_gradient_flows_through_targets():
    with tf.Graph().as_default():
        numbers = tf.ones([2, 3])
        found = v_trace(numbers, numbers, numbers, tf.ones([2, 4]))
        assert tf.gradients(list(found), [numbers]) == [None]


def test_mismatched_shapes():
    with tf.Graph().as_default():
        numbers = tf.ones([2, 3])
        with pytest.raises(ModelError, match=r"values of \[batch, steps \+ 1\].*value \(2, 3\)"):
            v_trace(numbers, numbers, numbers, numbers)
        unknown = tf.placeholder(tf.float32, [None, None])
        with pytest.raises(ModelError, match="with a static number of steps"):
            v_trace(unknown, numbers, numbers, tf.ones([2, 4]))


def test_the_cost_counts_only_valid_steps():
    class Batch:
        action, behaviour_log_probability = (
            np.zeros((2, 3), np.int64),
            np.full((2, 3), np.log(0.5), np.float32),
        )
        terminated = np.zeros((2, 3), bool)
        valid = np.array([[True, False, False], [True, True, False]])

    with tf.Graph().as_default(), tf.Session() as session:
        logits, value = tf.zeros([8, 2]), tf.zeros([8])
        for other in (5.0, 7.0):  # the reward of an invalid step does not matter
            batch = Batch()
            batch.reward = np.where(Batch.valid, 1, other).astype(np.float32)
            for name in ("action", "behaviour_log_probability", "terminated", "valid", "reward"):
                setattr(batch, name, tf.constant(getattr(batch, name)))
            cost = VTraceObjective(discount=0.5).cost(Categorical(logits), value, batch)
            # Targets 1, 1.5 and 1 of the valid steps; log-probabilities and entropies of a fair coin.
            expected = np.log(2) * 3.5 / 3 + 0.5 * (1 + 2.25 + 1) / 3 - 0.01 * np.log(2)
            np.testing.assert_allclose(session.run(cost), expected, rtol=1e-5)
