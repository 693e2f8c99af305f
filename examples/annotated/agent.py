"""An agent that balances a pole, by PPO with a network and a rollout of its own, with all annotations.

python agent.py
"""

import gymnasium
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import MaxSaver
from towerpack_dataflow.envs import VectorEnvState
from towerpack_dataflow.replay import RolloutBuffer
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import Categorical, Distribution, PolicyEvaluator, PolicyModel, PPOTrainer

ENVIRONMENTS, STEPS = 8, 64


class CartPole(PolicyModel):
    """A network of the policy and one of the value, each with a hidden layer."""

    def policy(self, observation: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """Returns the distribution of actions, and the expected future rewards."""
        with tf.variable_scope("policy"):
            logits = self._network(observation, int(self.action_space.n))
        with tf.variable_scope("value"):
            value = self._network(observation, 1)
        return Categorical(logits), value[:, 0]

    def optimizer(self) -> tf.train.Optimizer:
        """Returns Adam."""
        return tf.train.AdamOptimizer(3e-3)

    def _network(self, observation: tf.Tensor, outputs: int) -> tf.Tensor:
        hidden = FullyConnected("hidden", observation, 64, activation=tf.nn.tanh)
        return FullyConnected("output", hidden, outputs)


def make_envs(count: int) -> gymnasium.vector.VectorEnv:
    """Creates copies of the environment."""
    return gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")


def main(max_epoch: int = 4, log_dir: str = "train_log/annotated_agent") -> None:
    """Trains, and prints the mean return of the last evaluation."""
    envs = make_envs(ENVIRONMENTS)
    config = TrainConfig(
        model=CartPole.of(envs),
        callbacks=[
            PolicyEvaluator(lambda: make_envs(10), episodes=10),
            MaxSaver("evaluation_mean_return"),
        ],
        max_epoch=max_epoch,
        log_dir=log_dir,
        seed=0,
    )
    spaces = envs.single_observation_space, envs.single_action_space
    trainer = PPOTrainer(
        config,
        envs,
        RolloutBuffer(*spaces, steps=STEPS, environments=ENVIRONMENTS, gamma=0.98, lam=0.8),
        batch_size=256,
        epochs=10,
        env_state=VectorEnvState(envs),
    )
    trainer.train()
    returns = np.array([value for _, value in trainer.monitors.get_history("evaluation_mean_return")])
    print(f"mean return {returns[-1]:.0f} after {trainer.loop.env_steps} steps")


if __name__ == "__main__":
    main()
