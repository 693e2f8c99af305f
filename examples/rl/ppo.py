"""Train an agent by proximal policy optimization.

    python ppo.py --env CartPole-v1 --seed 0
    python play.py train_log/ppo-CartPole-v1-0 --video

The last line is the mean return of 100 episodes that were not seen before, played by the best weights of
evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`; MinAtar and Atari need `minatar`
and `ale-py` besides.
"""

import gymnasium
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import EVALUATION_SEED, STATISTIC, StopAt, make_envs, test
from gymnasium.wrappers.vector import TransformReward
from ppo_settings import SETTINGS

from towerpack_callbacks import MaxSaver, PeriodicTrigger
from towerpack_dataflow.envs import VectorEnvState
from towerpack_dataflow.replay import RolloutBuffer
from towerpack_layers import Conv2D, FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import (
    Categorical,
    DiagonalGaussian,
    PolicyEvaluator,
    PolicyModel,
    PPOObjective,
    PPOTrainer,
)


class Agent(PolicyModel):
    """Separate networks for policy and values on numbers; on pictures, they share the convolutions."""

    def __init__(self, observation_space, action_space, settings):
        super().__init__(observation_space, action_space)
        self._settings = settings

    def policy(self, observation):
        separate = not self._settings.filters
        x = observation if separate else self._pictures(observation)
        value = self._network("value", x, 1, separate)[:, 0]
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            return Categorical(self._network("policy", x, self.action_space.n, separate)), value
        [numbers] = self.action_space.shape
        spread = tf.get_variable("log_std", [numbers], initializer=tf.zeros_initializer())
        return DiagonalGaussian(self._network("policy", x, numbers, separate), spread), value

    def _network(self, name, x, outputs, hidden):
        with tf.variable_scope(name):
            for number, units in enumerate(self._settings.units if hidden else ()):
                x = FullyConnected(f"hidden{number}", x, units, activation=tf.nn.tanh)
            return FullyConnected("output", x, outputs)

    def _pictures(self, x):
        if large := x.dtype == tf.uint8:  # Atari's four frames, newest last, are the first axis
            x = tf.transpose(x, [0, 2, 3, 1])
        x = tf.cast(x, tf.float32) / (255 if large else 1)
        for number, filters in enumerate(self._settings.filters):
            size, stride = ((8, 4), (4, 2))[number] if large else (3, 1)
            x = Conv2D(
                f"conv{number}", x, filters, size, strides=stride, padding="valid", activation=tf.nn.relu
            )
        for number, units in enumerate(self._settings.units):
            x = FullyConnected(f"hidden{number}", x, units, activation=tf.nn.relu)
        return x

    def optimizer(self):
        step = tf.train.get_or_create_global_step()
        return tf.train.AdamOptimizer(
            tf.train.polynomial_decay(self._settings.rate, step, self._settings.updates, 0.0)
        )


def make_model(env, envs):
    """Makes the agent for an environment."""
    return Agent.of(envs, SETTINGS[env])


def train(env, seed, log_dir) -> None:
    """Trains, and tests."""
    settings = SETTINGS[env]
    envs = make_envs(env, settings.envs)
    if settings.scale != 1:
        envs = TransformReward(envs, lambda reward: reward * settings.scale)
    model = make_model(env, envs)
    spaces = envs.single_observation_space, envs.single_action_space
    rollout = RolloutBuffer(
        *spaces, settings.steps, settings.envs, gamma=settings.gamma, lam=settings.lam, seed=seed
    )
    evaluator = PolicyEvaluator(
        lambda: make_envs(env, settings.evaluate), settings.evaluate, seed=EVALUATION_SEED
    )
    config = TrainConfig(
        model=model,
        callbacks=[
            PeriodicTrigger(evaluator, every_k_epochs=settings.every),
            MaxSaver(STATISTIC),
            StopAt(settings.goal),
        ],
        max_epoch=settings.iterations // 10,
        log_dir=log_dir,
        seed=seed,
    )
    trainer = PPOTrainer(
        config,
        envs,
        rollout,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        objective=PPOObjective(clip=settings.clip, entropy=settings.entropy),
        env_state=VectorEnvState(envs),
    )
    trainer.train()
    envs.close()
    test("ppo", env, seed, model, log_dir, trainer.env_steps)


if __name__ == "__main__":
    run(train, SETTINGS, __doc__)
