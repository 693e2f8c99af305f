"""A model of values, and trainings of it on walks."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow.replay import ReplayBuffer, UniformSampling
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig, fast_dev_run
from towerpack_trainers.rl import DQNTrainer, LinearEpsilon, QModel, TargetCopy

_OPTIONS = ("resume", "resume_allow", "session_init")


class Valuer(QModel):
    """Small values of walks."""

    def q_values(self, observation):
        hidden = FullyConnected("hidden", observation, 16, activation=tf.nn.tanh)
        return FullyConnected("values", hidden, self.action_space.n)

    def optimizer(self):
        return tf.train.AdamOptimizer(0.01)


@pytest.fixture
def valuer():
    return Valuer


@pytest.fixture
def new_memory(walks):
    """Makes a memory for walks."""

    def make(capacity=500, sampling=None, **more):
        spaces = walks().single_observation_space, walks().single_action_space
        sampling = UniformSampling(seed=5) if sampling is None else sampling
        return ReplayBuffer(*spaces, capacity, sampling=sampling, **more)

    return make


@pytest.fixture
def train(walks, kit, new_memory, tmp_path):
    """Trains on walks, and returns the trainer and its last weights."""

    def run(envs=None, model=Valuer, callbacks=(), memory=None, dry_run=False, name="log", **more):
        envs = walks(4) if envs is None else envs
        group = envs[0] if isinstance(envs, list) else envs
        weights = kit.Weights()
        config = TrainConfig(
            model=model.of(group),
            callbacks=[*callbacks, weights],
            max_epoch=more.pop("max_epoch", 1),
            steps_per_epoch=more.pop("steps_per_epoch", 24),
            log_dir=tmp_path / name,
            **{option: more.pop(option) for option in _OPTIONS if option in more},
            seed=11,
            monitors=[],
        )
        settings = {
            "exploration": LinearEpsilon(1.0, 0.1, env_steps=300),
            "target_network": TargetCopy(6),
            "batch_size": 16,
            "steps_per_iteration": 8,
            "updates_per_iteration": 4,
            "learning_starts": 40,
        }
        memory = new_memory() if memory is None else memory
        trainer = DQNTrainer(fast_dev_run(config) if dry_run else config, envs, memory, **settings | more)
        trainer.train()
        return trainer, weights.values

    return run
