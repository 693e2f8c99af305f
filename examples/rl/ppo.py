"""Train an agent by proximal policy optimization.

    python ppo.py --env CartPole-v1 --seed 0
    python play.py train_log/ppo-CartPole-v1-0 --video

The last line is the mean return of 100 episodes that were not seen before, played by the best weights of
evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`; MinAtar and Atari need `minatar`
and `ale-py` besides.
"""

from dataclasses import dataclass
from functools import partial

import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import EVALUATION_SEED, STATISTIC, StopAt, make_envs, test

from towerpack_callbacks import MaxSaver, PeriodicTrigger
from towerpack_layers import Conv2D, FullyConnected
from towerpack_trainers.rl import (
    Categorical,
    DefaultPolicyModel,
    PolicyEvaluator,
    PolicyModel,
    PPOSettings,
    PPOTrainer,
)


@dataclass(frozen=True)
class Training:
    """A training: the agent's settings, the mean return that ends it early, and its evaluations.

    An evaluation has `evaluate` episodes; there is one after every `every` epochs of ten iterations.
    """

    settings: PPOSettings
    goal: float = float("inf")
    evaluate: int = 20
    every: int = 1


TRAININGS = {
    "CartPole-v1": Training(PPOSettings.of("CartPole-v1"), goal=500),
    "Acrobot-v1": Training(PPOSettings.of("Acrobot-v1"), evaluate=50),
    "Pendulum-v1": Training(PPOSettings.of("Pendulum-v1")),
    "MinAtar/Breakout-v1": Training(PPOSettings.of("MinAtar/Breakout-v1")),
    "Pong": Training(
        PPOSettings(env_steps=1_500_000, steps=128, epochs=4, learning_rate=5e-4, clip=0.1, entropy=0.01),
        goal=18,
        evaluate=8,
        every=10,
    ),
}


class SmallAtariPolicy(PolicyModel):
    """Half of the default network for pictures, which learns Pong in a fraction of the time."""

    def __init__(self, observation_space, action_space, settings):
        super().__init__(observation_space, action_space)
        self._settings = settings

    def policy(self, observation):
        # The four frames, newest last, are the first axis.
        x = tf.cast(tf.transpose(observation, [0, 2, 3, 1]), tf.float32) / 255
        x = Conv2D("conv0", x, 16, 8, strides=4, padding="valid", activation=tf.nn.relu)
        x = Conv2D("conv1", x, 32, 4, strides=2, padding="valid", activation=tf.nn.relu)
        x = FullyConnected("hidden", x, 256, activation=tf.nn.relu)
        value = FullyConnected("value", x, 1)[:, 0]
        return Categorical(FullyConnected("policy", x, self.action_space.n)), value

    def optimizer(self):
        updates = self._settings.iterations * self._settings.updates_per_iteration
        step = tf.train.get_or_create_global_step()
        return tf.train.AdamOptimizer(
            tf.train.polynomial_decay(self._settings.learning_rate, step, updates, 0.0)
        )


def make_model(env, envs):
    """Makes the agent for an environment."""
    model = SmallAtariPolicy if env == "Pong" else DefaultPolicyModel
    return model.of(envs, TRAININGS[env].settings)


def train(env, seed, log_dir) -> None:
    """Trains, and tests."""
    training, single = TRAININGS[env], make_envs(env, 1)
    model = make_model(env, single)
    single.close()
    evaluator = PolicyEvaluator(
        lambda: make_envs(env, training.evaluate), training.evaluate, seed=EVALUATION_SEED
    )
    trainer = PPOTrainer.for_env(
        partial(make_envs, env),
        training.settings,
        seed=seed,
        evaluation_episodes=0,
        model=model,
        callbacks=[
            PeriodicTrigger(evaluator, every_k_epochs=training.every),
            MaxSaver(STATISTIC),
            StopAt(training.goal),
        ],
        log_dir=log_dir,
    )
    trainer.train()
    test("ppo", env, seed, model, log_dir, trainer.env_steps)


if __name__ == "__main__":
    run(train, TRAININGS, __doc__)
