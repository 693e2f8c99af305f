"""PPO on a vectorised CartPole: this project's trainer, Stable-Baselines3's and rlox's.

Imported by the process of each subject, in which TensorFlow and PyTorch choose their threads. All have two
networks of 2 x 64 units with tanh, for the policy and for values, Adam, advantages normalised in each batch,
and gradients clipped to a norm of 0.5, the defaults of Stable-Baselines3.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import _rounds
import numpy as np
from _screen import on_screen

ENVS, UNITS, RATE, NORM = 8, 64, 3e-4, 0.5
EPOCHS = 3  # of which the first one is not counted: in it, graphs are pruned and calls tried


class Setting(NamedTuple):
    """The sizes of a training.

    Attributes:
        name: whose settings these are.
        steps: of each environment, in a rollout.
        batch: steps of one update.
        epochs: how often each step of a rollout is learned from.
        iterations: rollouts that are measured together.
        gamma: the discount.
        lam: of the advantages.
    """

    name: str
    steps: int
    batch: int
    epochs: int
    iterations: int
    gamma: float
    lam: float

    @property
    def env_steps(self) -> int:
        """Of a rollout, in all environments."""
        return self.steps * ENVS

    @property
    def updates(self) -> int:
        """After a rollout."""
        return self.epochs * -(-self.env_steps // self.batch)


class Speed(NamedTuple):
    """The measurements of one round.

    Attributes:
        env_steps: steps of environments per second of the whole training.
        updates: per second of learning alone.
    """

    env_steps: float
    updates: float


SETTINGS = [
    Setting("rl-baselines3-zoo", 32, 256, 20, _rounds.shorter(80, 2), 0.98, 0.8),
    Setting("the defaults", _rounds.shorter(2048, 64), 64, 10, 1, 0.99, 0.95),
]


def cartpole() -> Any:
    """Eight CartPoles that NumPy computes together."""
    import gymnasium

    return gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="vector_entry_point")


def trainer(setting: Setting) -> Callable[[], Speed]:
    """The code of a user, with default callbacks and monitors. Each call starts a new training."""
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochEnds

    from towerpack_dataflow.replay import RolloutBuffer
    from towerpack_layers import FullyConnected
    from towerpack_trainers import TrainConfig
    from towerpack_trainers.optimize import GlobalNormClip, apply_grad_processors
    from towerpack_trainers.rl import Categorical, PolicyModel, PPOTrainer

    class Agent(PolicyModel):
        def policy(self, observation: Any) -> Any:
            value = self._network("value", observation, 1)[:, 0]
            return Categorical(self._network("policy", observation, self.action_space.n)), value

        def _network(self, name: str, x: Any, outputs: int) -> Any:
            with tf.variable_scope(name):
                for number in range(2):
                    x = FullyConnected(f"hidden{number}", x, UNITS, activation=tf.nn.tanh)
                return FullyConnected("output", x, outputs)

        def optimizer(self) -> Any:
            return apply_grad_processors(tf.train.AdamOptimizer(RATE, epsilon=1e-5), [GlobalNormClip(NORM)])

    class Watch(EpochEnds):
        """Also notes the share of learning."""

        def _after_train(self) -> None:
            self.learning = [share for _, share in self.trainer.monitors.get_history("learner_share")]

    def run() -> Speed:
        watch, envs = Watch(), cartpole()
        spaces = envs.single_observation_space, envs.single_action_space
        rollout = RolloutBuffer(*spaces, setting.steps, ENVS, gamma=setting.gamma, lam=setting.lam, seed=0)
        updates = setting.iterations * setting.updates
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=Agent.of(envs),
                callbacks=[watch],
                steps_per_epoch=updates,
                max_epoch=EPOCHS,
                log_dir=log_dir,
            )
            PPOTrainer(config, envs, rollout, batch_size=setting.batch, epochs=setting.epochs).train()
        seconds = (watch.times[-1] - watch.times[0]) / (EPOCHS - 1)
        learning = float(np.mean(watch.learning[1:]))
        return Speed(setting.iterations * setting.env_steps / seconds, updates / (learning * seconds))

    return run


def stable_baselines(setting: Setting, threads: int | None) -> Callable[[], Speed]:
    """Their trainer; a call measures the next rollouts.

    Args:
        setting: the sizes.
        threads: of PyTorch; None for as many as it chooses.
    """
    import torch
    from _sb3_envs import VectorEnvs
    from stable_baselines3 import PPO

    if threads is not None:
        torch.set_num_threads(threads)

    class Timed(PPO):
        learning = 0.0

        def train(self) -> None:
            begin = time.perf_counter()
            super().train()
            self.learning += time.perf_counter() - begin

    model = Timed(
        "MlpPolicy",
        VectorEnvs(cartpole()),
        learning_rate=RATE,
        n_steps=setting.steps,
        batch_size=setting.batch,
        n_epochs=setting.epochs,
        gamma=setting.gamma,
        gae_lambda=setting.lam,
        device="cpu",
    )
    env_steps = setting.iterations * setting.env_steps

    def run() -> Speed:
        model.learning, begin = 0.0, time.perf_counter()
        model.learn(env_steps, reset_num_timesteps=False)
        return Speed(
            env_steps / (time.perf_counter() - begin), setting.iterations * setting.updates / model.learning
        )

    run()
    return run


def rlox_ppo(setting: Setting) -> Callable[[], Speed]:
    """rlox's trainer, with environments and advantages in Rust; a call measures the next rollouts."""
    import torch
    from rlox.algorithms.ppo import PPO

    torch.set_num_threads(1)
    model = PPO(
        "CartPole-v1",
        n_envs=ENVS,
        n_steps=setting.steps,
        n_epochs=setting.epochs,
        batch_size=setting.batch,
        learning_rate=RATE,
        max_grad_norm=NORM,
        gamma=setting.gamma,
        gae_lambda=setting.lam,
        ent_coef=0.0,
        clip_vloss=False,
        anneal_lr=False,
    )
    env_steps = setting.iterations * setting.env_steps
    collect = model.collector.collect
    acting = 0.0

    def timed(*arguments: Any, **options: Any) -> Any:
        nonlocal acting
        begin = time.perf_counter()
        try:
            return collect(*arguments, **options)
        finally:
            acting += time.perf_counter() - begin

    model.collector.collect = timed

    def run() -> Speed:
        nonlocal acting
        acting, begin = 0.0, time.perf_counter()
        model.train(env_steps)
        seconds = time.perf_counter() - begin
        return Speed(env_steps / seconds, setting.iterations * setting.updates / (seconds - acting))

    run()
    return run
