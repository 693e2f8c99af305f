"""Agents by the name of an environment, with default networks for its spaces."""

import itertools

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver
from towerpack_callbacks.checkpoint import load_variables
from towerpack_trainers import ConfigError, ModelError
from towerpack_trainers.rl import (
    DefaultPolicyModel,
    DefaultQModel,
    DQNSettings,
    DQNTrainer,
    MultiCategorical,
    PolicyModel,
    PPOSettings,
    PPOTrainer,
)

gymnasium = pytest.importorskip("gymnasium")
Box, Dict, Discrete = gymnasium.spaces.Box, gymnasium.spaces.Dict, gymnasium.spaces.Discrete
MultiDiscrete, Tuple = gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Tuple

PPO = PPOSettings(env_steps=32, environments=2, steps=8, batch_size=16, epochs=1, units=(4,))
DQN = DQNSettings(
    env_steps=32, environments=2, steps=4, updates=1, batch_size=4, learning_starts=8, capacity=64, units=(4,)
)


class AtRandom(gymnasium.Env):
    """Random observations of a space, in episodes of five steps; refuses actions of other spaces."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 5, False, {}


def maker(observation_space, action_space):
    """Returns a function that makes vector environments."""
    single = lambda: AtRandom(observation_space, action_space)  # noqa: E731
    return lambda count: gymnasium.vector.SyncVectorEnv([single] * count)


NUMBERS = Box(-1, 1, [3], np.float32)
OBSERVATIONS = {
    "vector": NUMBERS,
    "whole numbers": Box(0, 9, [3], np.int64),
    "matrix": Box(-1, 1, [3, 2], np.float64),
    "one of several": Discrete(5, start=2),
    "dict": Dict({"speed": NUMBERS, "gear": Discrete(4)}),
    "tuple": Tuple([NUMBERS, Discrete(4)]),
    "Atari": Box(0, 255, [4, 84, 84], np.uint8),
    "picture": Box(0, 255, [40, 36, 3], np.uint8),
    "small picture": Box(0, 1, [10, 10, 4], bool),
}
ACTIONS = {
    "discrete": Discrete(3, start=-1),
    "several at once": MultiDiscrete([3, 2, 3]),
    "numbers": Box(-1, 1, [2], np.float32),
    "matrix of numbers": Box(-2, 2, [2, 2], np.float64),
}


@pytest.mark.parametrize(
    ("observation", "action"),
    [*((name, "discrete") for name in OBSERVATIONS), *(("vector", name) for name in ACTIONS)],
)
def test_ppo_trains_in_all_spaces(tmp_path, observation, action):
    trainer = PPOTrainer.for_env(
        maker(OBSERVATIONS[observation], ACTIONS[action]),
        PPO,
        seed=0,
        evaluation_episodes=2,
        log_dir=tmp_path,
    )
    trainer.train()
    assert (trainer.env_steps, trainer.loop.global_step) == (pytest.approx(32, abs=6), 2)
    assert trainer.monitors.get_latest("evaluation_mean_return") == 5
    assert (tmp_path / "max-evaluation_mean_return").exists()


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_dqn_trains_on_all_observations(observation):
    make = maker(OBSERVATIONS[observation], ACTIONS["discrete"])
    trainer = DQNTrainer.for_env(make, DQN, seed=0, evaluation_episodes=2, log_dir=None)
    trainer.train()
    assert trainer.loop.global_step == 8
    assert trainer.monitors.get_latest("evaluation_mean_return") == 5


def test_dqn_stores_each_frame_once():
    make = maker(OBSERVATIONS["Atari"], ACTIONS["discrete"])
    settings = attrs.evolve(DQN, frame_stack=4)
    DQNTrainer.for_env(make, settings, seed=0, evaluation_episodes=0, log_dir=None).train()


@pytest.mark.parametrize("action", ["several at once", "numbers"])
def test_dqn_needs_discrete_actions(action):
    with pytest.raises(ConfigError, match=r"expected a Discrete space; received .*Use PPOTrainer"):
        DQNTrainer.for_env(maker(NUMBERS, ACTIONS[action]), DQN, log_dir=None)


@pytest.mark.parametrize(
    "env",
    [3, None, lambda count: None, lambda count: gymnasium.make("CartPole-v1"), maker(NUMBERS, NUMBERS)(1)],
)
def test_a_wrong_environment(env):
    with pytest.raises(
        ConfigError, match=r"env=.*expected the name of a gymnasium environment, or a function"
    ):
        PPOTrainer.for_env(env, PPO, log_dir=None)


def test_an_unknown_name():
    with pytest.raises(gymnasium.error.NameNotFound, match="CartPoll"):
        PPOTrainer.for_env("CartPoll-v1")


def test_the_module_that_registers_an_environment_is_imported(monkeypatch, tmp_path):
    module = "import gymnasium; from gymnasium.envs.classic_control import CartPoleEnv\n"
    module += "gymnasium.register('Mine/Pole-v0', CartPoleEnv)\n"
    (tmp_path / "poles_of_mine.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    PPOTrainer.for_env("poles_of_mine:Mine/Pole-v0", PPO, evaluation_episodes=2, log_dir=None).train()


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(ConfigError, match="learning_rate"):
        PPOTrainer.for_env("CartPole-v1", learning_rate=1e-3)


@pytest.mark.parametrize("trainer, settings", [(PPOTrainer, "PPOSettings"), (DQNTrainer, "DQNSettings")])
def test_a_setting_among_the_arguments_is_named(trainer, settings):
    with pytest.raises(ConfigError, match=rf"settings=attrs.evolve\({settings}.of\(env\), gamma=0.9\)"):
        trainer.for_env("CartPole-v1", gamma=0.9)


def test_a_single_callback_is_refused_as_by_a_configuration():
    with pytest.raises(ConfigError, match="is one callback; give a list"):
        PPOTrainer.for_env("CartPole-v1", PPO, callbacks=ModelSaver(), log_dir=None)


@pytest.mark.parametrize("trainer", [PPOTrainer, DQNTrainer])
def test_a_killed_training_resumes_exactly(tmp_path, trainer):
    settings = PPO if trainer is PPOTrainer else DQN

    def trained(log_dir, max_epoch, **options):
        callbacks = [ModelSaver()]
        made = trainer.for_env(
            "CartPole-v1",
            settings,
            seed=5,
            log_dir=log_dir,
            max_epoch=max_epoch,
            callbacks=callbacks,
            **options,
        )
        made.train()
        return made.env_steps, load_variables(log_dir / "latest")

    steps, weights = trained(tmp_path / "whole", 4)
    trained(tmp_path / "parts", 2)
    resumed_steps, resumed = trained(tmp_path / "parts", 4, resume="auto")
    assert resumed_steps == steps
    assert resumed.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(resumed[name], value)


class Unfinished(PolicyModel):
    def policy(self, observation):
        raise NotImplementedError("this model was used")

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


def test_another_model_replaces_the_default_one():
    model = Unfinished(Box(-1, 1, [4], np.float32), Discrete(2))
    with pytest.raises(NotImplementedError, match="this model was used"):
        PPOTrainer.for_env("CartPole-v1", PPO, model=model, log_dir=None).train()


@pytest.mark.slow
def test_cartpole_is_learned_with_the_settings_of_its_name(tmp_path):
    settings = attrs.evolve(PPOSettings.of("CartPole-v1"), env_steps=15_000)
    trainer = PPOTrainer.for_env("CartPole-v1", settings, seed=1, log_dir=tmp_path, evaluation_episodes=20)
    trainer.train()
    assert trainer.monitors.get_latest("evaluation_mean_return") > 100  # a random player reaches 22


def test_settings_by_name():
    assert PPOSettings.of("CartPole-v1").gamma == PPOSettings.of("gymnasium:CartPole-v1").gamma == 0.98
    assert DQNSettings.of("CartPole-v1").gamma == 0.997
    assert PPOSettings.of("ale_py:ALE/Pong-v5") == PPOSettings.of("ALE/Breakout-v5") != PPOSettings()
    assert DQNSettings.of("ALE/Pong-v5").frame_stack == 4
    for settings in (PPOSettings, DQNSettings):
        assert settings.of("Unknown-v0") == settings.of(maker(NUMBERS, NUMBERS)) == settings()


def test_defaults_predict_without_settings():
    spaces = OBSERVATIONS["vector"], ACTIONS["discrete"]
    for model in (DefaultPolicyModel(*spaces), DefaultQModel(*spaces)):
        with tf.Graph().as_default():
            model.build_graph(tf.zeros([2, 3]))


# ---- several choices at once


def test_probabilities_of_several_choices_sum_to_one():
    choices = [3, 2, 4]
    actions = np.array(list(itertools.product(*map(range, choices))))
    logits = np.random.default_rng(0).normal(size=[1, sum(choices)]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        distribution = MultiCategorical(tf.constant(np.repeat(logits, len(actions), 0)), choices)
        probability, entropy, mode = session.run(
            [tf.exp(distribution.log_probability(actions)), distribution.entropy()[0], distribution.mode()[0]]
        )
    assert probability.sum() == pytest.approx(1, abs=1e-5)
    assert entropy == pytest.approx(-(probability * np.log(probability)).sum(), abs=1e-4)
    np.testing.assert_array_equal(mode, actions[probability.argmax()])


def test_several_choices_are_drawn_independently_by_their_probabilities():
    rows = 20_000
    with tf.Graph().as_default(), tf.Session() as session:
        logits = tf.tile(tf.log([[0.5, 0.5, 0.25, 0.75]]), [rows, 1])
        drawn = session.run(MultiCategorical(logits, [2, 2]).sample(tf.constant([1, 2], tf.int64)))
    frequencies = np.zeros([2, 2])
    np.add.at(frequencies, tuple(drawn.T), 1 / rows)
    np.testing.assert_allclose(frequencies, [[0.125, 0.375], [0.125, 0.375]], atol=0.02)


def test_the_number_of_logits_is_checked():
    with (
        tf.Graph().as_default(),
        pytest.raises(ModelError, match=r"choices=\[2, 3\].*\[batch, 5\]; received"),
    ):
        MultiCategorical(tf.zeros([1, 4]), [2, 3])
