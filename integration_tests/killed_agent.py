"""An agent that learns values from a memory, for a process that is killed repeatedly.

python killed_agent.py LOG_DIR EPOCHS [--processes]

It resumes by itself, prints a line per step, and ends after epochs of 20 steps. With --processes, its
environments are in processes, and the memory is sampled by priorities; else they are computed together, and
it is not.
"""

import sys
import threading
from pathlib import Path

import gymnasium
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger
from towerpack_dataflow.envs import ProcessVectorEnv, VectorEnvState
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import DoubleQ, DQNTrainer, LinearEpsilon, QModel, TargetCopy, dueling

COUNT = 4


class Values(QModel):
    """A small network."""

    def q_values(self, observation):
        hidden = FullyConnected("hidden", observation, 32, activation=tf.nn.relu)
        return dueling(hidden, self.action_space.n)

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


class Tell(Callback):
    """Prints a line per step, so that somebody can choose a moment."""

    def _before_train(self):
        print("begins", flush=True)

    def _trigger_step(self):
        print(self.global_step, flush=True)
        threading.Event().wait(0.05)  # else it would be through before anyone can kill it often


def make_env():
    """Makes one of the environments that are in processes."""
    return gymnasium.make("CartPole-v1")


def main():
    """Trains, from the latest checkpoint if there is one."""
    processes = "--processes" in sys.argv
    if processes:
        envs, state = ProcessVectorEnv([make_env] * COUNT), None
        sampling = PrioritizedSampling(seed=5)
    else:
        envs = gymnasium.make_vec("CartPole-v1", COUNT, vectorization_mode="vector_entry_point")
        state, sampling = VectorEnvState(envs), UniformSampling(seed=5)
    spaces = envs.single_observation_space, envs.single_action_space
    config = TrainConfig(
        model=Values.of(envs),
        callbacks=[Tell(), PeriodicTrigger(ModelSaver(keep_last=3), every_k_steps=3, every_k_epochs=1)],
        steps_per_epoch=20,
        max_epoch=int(sys.argv[2]),
        log_dir=Path(sys.argv[1]),
        seed=3,
        resume="auto",
    )
    DQNTrainer(
        config,
        envs,
        ReplayBuffer(*spaces, 200, sampling=sampling, n_step=3),
        target=DoubleQ(n_step=3),
        target_network=TargetCopy(7),
        exploration=LinearEpsilon(1.0, 0.1, 300),
        steps_per_iteration=16,
        updates_per_iteration=4,
        learning_starts=100,
        env_state=state,
    ).train()
    envs.close()


if __name__ == "__main__":
    main()
