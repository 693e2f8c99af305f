"""Train an agent by proximal policy optimization.

    python ppo.py --env CartPole-v1 --seed 0
    python play.py train_log/ppo-CartPole-v1-0 --video

The last line is the mean return of 100 episodes that were not seen before, played by the best weights of
evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`; MinAtar and Atari need `minatar`
and `ale-py` besides.
"""

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import tensorflow.compat.v1 as tf
from evaluation import EVALUATION_SEED, STATISTIC, CountSteps, StopAt, make_envs, test

from towerpack_callbacks import MaxSaver
from towerpack_dataflow.envs import VectorEnvState
from towerpack_dataflow.replay import RolloutBuffer
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import (
    Categorical,
    DiagonalGaussian,
    PolicyEvaluator,
    PolicyModel,
    PPOObjective,
    PPOTrainer,
)


@dataclass(frozen=True)
class Settings:
    """What suits an environment; `goal` is the mean return that ends the training early."""

    env_steps: int
    goal: float = float("inf")
    envs: int = 8
    steps: int = 128
    batch_size: int = 256
    epochs: int = 10
    rate: float = 1e-3
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    evaluate: int = 20
    units: tuple[int, ...] = (64, 64)


SETTINGS = {
    "CartPole-v1": Settings(env_steps=200_000, goal=500, epochs=20, gamma=0.98, lam=0.8),
}


class Agent(PolicyModel):
    """Two networks, for the policy and for values."""

    def __init__(self, observation_space, action_space, settings):
        super().__init__(observation_space, action_space)
        self._settings = settings

    def policy(self, observation):
        value = self._network("value", observation, 1)[:, 0]
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            return Categorical(self._network("policy", observation, self.action_space.n)), value
        [numbers] = self.action_space.shape
        spread = tf.get_variable("log_std", [numbers], initializer=tf.zeros_initializer())
        return DiagonalGaussian(self._network("policy", observation, numbers), spread), value

    def _network(self, name, x, outputs):
        with tf.variable_scope(name):
            for number, units in enumerate(self._settings.units):
                x = FullyConnected(f"hidden{number}", x, units, activation=tf.nn.tanh)
            return FullyConnected("output", x, outputs)

    def optimizer(self):
        return tf.train.AdamOptimizer(self._settings.rate)


def make_model(env, envs):
    """Makes the agent for an environment."""
    return Agent.of(envs, SETTINGS[env])


def train(env, seed, log_dir) -> None:
    """Trains, and tests."""
    settings = SETTINGS[env]
    envs = make_envs(env, settings.envs)
    model = make_model(env, envs)
    spaces = envs.single_observation_space, envs.single_action_space
    rollout = RolloutBuffer(
        *spaces, settings.steps, settings.envs, gamma=settings.gamma, lam=settings.lam, seed=seed
    )
    count = CountSteps()
    evaluator = PolicyEvaluator(
        lambda: make_envs(env, settings.evaluate), settings.evaluate, seed=EVALUATION_SEED
    )
    turn = settings.steps * settings.envs
    config = TrainConfig(
        model=model,
        callbacks=[evaluator, MaxSaver(STATISTIC), StopAt(settings.goal), count],
        max_epoch=-(-settings.env_steps // (10 * turn)),
        log_dir=log_dir,
        seed=seed,
    )
    PPOTrainer(
        config,
        envs,
        rollout,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        objective=PPOObjective(clip=settings.clip, entropy=settings.entropy),
        env_state=VectorEnvState(envs),
    ).train()
    envs.close()
    test("ppo", env, seed, model, log_dir, count.steps)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Proximal policy optimization")
    parser.add_argument("--env", default="CartPole-v1", choices=SETTINGS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(args.env, args.seed, Path(f"train_log/ppo-{args.env.replace('/', '-')}-{args.seed}"))


if __name__ == "__main__":
    main()
