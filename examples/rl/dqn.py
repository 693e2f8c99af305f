"""Train an agent by deep Q-learning with double targets and a replay memory.

    python dqn.py --env CartPole-v1 --seed 0
    python play.py train_log/dqn-CartPole-v1-0 --video

The last line is the mean return of 100 episodes that were not seen before, played by the best weights of
evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`; MinAtar needs `minatar` besides.
"""

from dataclasses import dataclass

import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import EVALUATION_SEED, STATISTIC, StopAt, make_envs, test

from towerpack_callbacks import MaxSaver
from towerpack_dataflow.envs import VectorEnvState
from towerpack_dataflow.replay import ReplayBuffer, UniformSampling
from towerpack_layers import Conv2D, FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import (
    DoubleQ,
    DQNTrainer,
    LinearEpsilon,
    PolicyEvaluator,
    QModel,
    TargetCopy,
    dueling,
)


@dataclass(frozen=True)
class Settings:
    """The settings for an environment; a mean return of `goal` ends the training.

    After `explore` steps, `epsilon` of the actions are random.
    """

    env_steps: int
    goal: float = float("inf")
    envs: int = 8
    steps: int = 64
    updates: int = 32
    batch_size: int = 128
    capacity: int = 100_000
    target: int = 128
    explore: int = 8_000
    epsilon: float = 0.04
    rate: float = 1e-3
    gamma: float = 0.99
    n_step: int = 5
    evaluate: int = 100
    evaluations: int = 40
    units: tuple[int, ...] = (256, 256)
    filters: int = 0

    @property
    def iterations(self) -> int:
        """The number of iterations, each with actions and then an update."""
        return self.env_steps // self.steps


SETTINGS = {
    "CartPole-v1": Settings(env_steps=50_000, goal=500, updates=64, gamma=0.997, evaluate=1000),
    "Acrobot-v1": Settings(
        env_steps=100_000, updates=64, explore=15_000, epsilon=0.02, rate=6e-4, n_step=3, evaluate=200
    ),
    "MountainCar-v0": Settings(env_steps=120_000, explore=24_000),
    "MinAtar/Breakout-v1": Settings(
        env_steps=1_000_000, updates=16, explore=100_000, rate=5e-4, units=(128,), filters=16
    ),
}


class Agent(QModel):
    """A network for numbers or, with filters, for small pictures, and a dueling head."""

    def __init__(self, observation_space, action_space, settings):
        super().__init__(observation_space, action_space)
        self._settings = settings

    def q_values(self, observation):
        x = tf.cast(observation, tf.float32)
        if self._settings.filters:
            x = Conv2D("conv", x, self._settings.filters, 3, padding="valid", activation=tf.nn.relu)
        for number, units in enumerate(self._settings.units):
            x = FullyConnected(f"hidden{number}", x, units, activation=tf.nn.relu)
        return dueling(x, self.action_space.n)

    def optimizer(self):
        step, updates = (
            tf.train.get_or_create_global_step(),
            self._settings.iterations * self._settings.updates,
        )
        return tf.train.AdamOptimizer(tf.train.polynomial_decay(self._settings.rate, step, updates, 1e-5))


def make_model(env, envs):
    """Makes the agent for an environment."""
    return Agent.of(envs, SETTINGS[env])


def train(env, seed, log_dir) -> None:
    """Trains, and tests."""
    use = SETTINGS[env]
    envs = make_envs(env, use.envs)
    model = make_model(env, envs)
    spaces = envs.single_observation_space, envs.single_action_space
    sampling = UniformSampling(seed=seed)
    memory = ReplayBuffer(*spaces, use.capacity, sampling=sampling, n_step=use.n_step, gamma=use.gamma)
    evaluator = PolicyEvaluator(lambda: make_envs(env, use.evaluate), use.evaluate, seed=EVALUATION_SEED)
    config = TrainConfig(
        model=model,
        callbacks=[evaluator, MaxSaver(STATISTIC), StopAt(use.goal)],
        steps_per_epoch=use.iterations // use.evaluations * use.updates,
        max_epoch=use.evaluations,
        log_dir=log_dir,
        seed=seed,
    )
    trainer = DQNTrainer(
        config,
        envs,
        memory,
        target=DoubleQ(n_step=use.n_step, gamma=use.gamma),
        target_network=TargetCopy(use.target),
        exploration=LinearEpsilon(1.0, use.epsilon, use.explore),
        batch_size=use.batch_size,
        steps_per_iteration=use.steps,
        updates_per_iteration=use.updates,
        learning_starts=1000,
        env_state=VectorEnvState(envs),
    )
    trainer.train()
    envs.close()
    test("dqn", env, seed, model, log_dir, trainer.env_steps)


if __name__ == "__main__":
    run(train, SETTINGS, __doc__)
