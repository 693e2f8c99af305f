"""Targets of values, compared with NumPy; the target network; exploration; the dueling head."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected
from towerpack_trainers import ConfigError, ModelError, OfflinePredictor, PredictConfig
from towerpack_trainers.rl import DoubleQ, LinearEpsilon, MaxQ, QModel, TargetAverage, TargetCopy, dueling

ONLINE = np.float32([[1, 2, 0], [5, 1, 1], [0, 0, 9]])
TARGET = np.float32([[7, 3, 4], [2, 8, 1], [6, 5, 4]])


@pytest.mark.parametrize(("objective", "expected"), [(MaxQ(), [7, 8, 6]), (DoubleQ(), [3, 2, 4])])
def test_the_value_of_the_next_observation(objective, expected):
    with tf.Graph().as_default(), tf.Session() as session:
        value = objective.next_value(lambda: tf.constant(ONLINE), tf.constant(TARGET))
        np.testing.assert_array_equal(session.run(value), expected)


def test_errors_count_by_their_size_beyond_delta():
    with pytest.raises(ConfigError, match=r"MaxQ\(delta=0\): expected a positive number"):
        MaxQ(delta=0)


def test_epsilon():
    line = LinearEpsilon(0.9, 0.1, env_steps=80)
    assert [round(line.at(steps), 3) for steps in (0, 20, 79, 80, 1000)] == [0.9, 0.7, 0.11, 0.1, 0.1]
    with pytest.raises(ConfigError, match=r"LinearEpsilon\(env_steps=0\)"):
        LinearEpsilon(env_steps=0)


def test_dueling_values():
    features = np.float32([[1, -2], [3, 4]])
    with tf.Graph().as_default(), tf.Session() as session:
        values = dueling(tf.constant(features), 3)
        session.run(tf.global_variables_initializer())
        state, of_state, advantage, of_advantage = session.run(tf.trainable_variables())
        found = session.run(values)
    parts = features @ advantage + of_advantage
    expected = features @ state + of_state + parts - parts.mean(1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ModelError, match=r"features of shape \[batch, units\]"), tf.Graph().as_default():
        dueling(tf.zeros([1, 2, 3]), 3)


def test_a_predictor_of_greedy_actions(valuer, walks):
    outputs = ["greedy_action", "state_action_values"]
    model = valuer.of(walks())
    config = PredictConfig(model=model, input_names=["observation"], output_names=outputs)
    with OfflinePredictor(config) as predictor:
        actions, values = predictor(np.float32([[0.1, 0.2], [-1, 0.3]]))
    assert values.shape == (2, 2) and values.dtype == np.float32
    np.testing.assert_array_equal(actions, values.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("rule", [TargetCopy(6), TargetAverage(0.25)], ids=["copy", "average"])
def test_the_target_network_follows(train, rule):
    _, weights = train(target_network=rule, steps_per_epoch=8)
    _, at_copy = train(target_network=TargetCopy(6), steps_per_epoch=6, name="until the copy")
    name = "values/W"
    target = weights[f"target_network/{name}"]
    assert not np.array_equal(target, weights[name])
    if isinstance(rule, TargetCopy):
        np.testing.assert_array_equal(target, at_copy[name])
        np.testing.assert_array_equal(at_copy[f"target_network/{name}"], at_copy[name])


@pytest.mark.slow
def test_a_soft_target_compared_with_numpy(train):
    history = [
        train(target_network=TargetAverage(0.25), steps_per_epoch=steps, name=f"{steps}")[1]
        for steps in (1, 2)
    ]
    for name in ("values/W", "hidden/b"):
        before, now = (each[f"target_network/{name}"] for each in history)
        np.testing.assert_allclose(now, before + 0.25 * (history[1][name] - before), rtol=1e-5, atol=1e-7)


def wrong(values):
    class Wrong(QModel):
        def q_values(self, observation):
            return values(observation)

        def optimizer(self):
            return tf.train.AdamOptimizer()

    return Wrong


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (lambda x: FullyConnected("values", x, 3), r"float \[batch, 2\]; received shape \(16, 3\)"),
        (lambda x: x[:, 0], r"received shape \(16,\)"),
        (lambda x: (x, x), r"float \[batch, 2\]; received \("),
        (lambda x: tf.cast(x, tf.int32), r"float \[batch, 2\]; received"),
    ],
)
def test_wrong_values(train, values, text):
    with pytest.raises(ModelError, match=text):
        train(model=wrong(values))


def test_spaces_of_other_kinds(valuer, box, discrete):
    class Parts:
        spaces = {"camera": None}
        shape = dtype = None

    with pytest.raises(ConfigError, match="expected a Discrete space; received"):
        valuer(box([2]), box([1]))
    with pytest.raises(ConfigError, match=r"Observations of an agent must be arrays"):
        valuer(Parts(), discrete(2))
