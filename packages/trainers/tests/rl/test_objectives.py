import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers.rl import A2CObjective, Categorical, PPOObjective

RANDOM = np.random.default_rng(3)
SIZE = 12


class Batch:
    """A batch of a rollout."""

    def __init__(self, size=SIZE):
        self.action = RANDOM.integers(0, 3, size)
        self.old_log_probability = np.log(RANDOM.uniform(0.2, 0.6, size)).astype(np.float32)
        self.advantage, self.value_target = RANDOM.normal(size=(2, size)).astype(np.float32)


def cost_of(objective, logits, value, batch):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(objective.cost(Categorical(tf.constant(logits)), tf.constant(value), batch))


@pytest.fixture
def case():
    logits = RANDOM.normal(size=(SIZE, 3)).astype(np.float32)
    logs = logits - np.log(np.exp(logits.astype(np.float64)).sum(1, keepdims=True))
    return logits, RANDOM.normal(size=SIZE).astype(np.float32), Batch(), logs


def shared(logs, value, batch):
    """The chosen log-probabilities, the cost of values, the entropy."""
    entropy = -(np.exp(logs) * logs).sum(1).mean()
    return logs[np.arange(SIZE), batch.action], ((value - batch.value_target) ** 2).mean(), entropy


@pytest.mark.parametrize("normalize", [False, True])
def test_the_cost_of_ppo_is_that_of_the_paper(case, normalize):
    logits, value, batch, logs = case
    chosen, of_values, entropy = shared(logs, value, batch)
    advantage = batch.advantage.astype(np.float64)
    if normalize:
        advantage = (advantage - advantage.mean()) / advantage.std()
    ratio = np.exp(chosen - batch.old_log_probability)
    clipped = np.clip(ratio, 0.7, 1.3)
    assert (ratio != clipped).any() and (ratio == clipped).any()
    expected = -np.minimum(ratio * advantage, clipped * advantage).mean() + 0.4 * of_values - 0.1 * entropy
    objective = PPOObjective(clip=0.3, value=0.4, entropy=0.1, normalize=normalize)
    assert cost_of(objective, logits, value, batch) == pytest.approx(expected, rel=1e-4)


def test_the_gradient_of_ppo_is_that_of_the_paper(case):
    logits, _, batch, _ = case
    with tf.Graph().as_default(), tf.Session() as session:
        policy, value = tf.constant(logits), tf.zeros([SIZE])
        cost = PPOObjective(value=0, normalize=False).cost(Categorical(policy), value, batch)
        chosen = tf.gather(tf.nn.log_softmax(policy), batch.action, batch_dims=1)
        ratio = tf.exp(chosen - batch.old_log_probability)
        clipped = tf.clip_by_value(ratio, 0.8, 1.2)
        paper = -tf.reduce_mean(tf.minimum(ratio * batch.advantage, clipped * batch.advantage))
        found, expected = session.run([tf.gradients(cost, policy)[0], tf.gradients(paper, policy)[0]])
    unused = (expected == 0).all(1)
    assert unused.any() and not unused.all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_the_cost_of_a2c_is_that_of_the_paper(case):
    logits, value, batch, logs = case
    chosen, of_values, entropy = shared(logs, value, batch)
    expected = -(chosen * batch.advantage).mean() + 0.5 * of_values - 0.01 * entropy
    assert cost_of(A2CObjective(), logits, value, batch) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("objective", [PPOObjective(), A2CObjective(normalize=True)])
def test_a_batch_without_steps_costs_nothing(objective):
    """All steps of a short rollout may only reset their environments."""
    cost = cost_of(objective, np.zeros((0, 3), np.float32), np.zeros(0, np.float32), Batch(0))
    assert cost == 0
