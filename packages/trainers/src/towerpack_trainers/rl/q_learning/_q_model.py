"""The description of an agent that estimates the value of each action."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as tf

from ..._errors import ConfigError, ModelError
from .._agent_model import AgentModel

__all__ = ["QModel"]


class QModel(AgentModel):
    """Describes action values. Subclass it, and override `q_values` and `optimizer`.

    `DQNTrainer` adds the inputs for learning. The model itself predicts: a predictor with the input
    "observation" has the outputs "greedy_action", the action of the largest value, and
    "state_action_values", float32 [batch, actions].

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete`.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents of this kind do not support such a space.

    Example:
        ```python
        class CartPole(QModel):
            def q_values(self, observation):
                hidden = FullyConnected("hidden", observation, 64, activation=tf.nn.relu)
                return FullyConnected("values", hidden, self.action_space.n)

            def optimizer(self):
                return tf.train.AdamOptimizer(1e-3)

        model = CartPole.of(envs)
        ```
    """

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__(observation_space, action_space)
        choices = self._action.choices
        if choices is None:
            raise ConfigError(
                f"{type(self).__name__} estimates a value for each action and needs a finite number of "
                f"actions: expected a Discrete space; received {action_space!r}. Use PPOTrainer for "
                "continuous actions."
            )
        self._choices = choices

    @abc.abstractmethod
    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network to the graph.

        Args:
            observation: a batch of observations, with the dtype of the space.

        Returns:
            The expected discounted return of each action: float [batch, actions]. See `dueling`.
        """

    def build_graph(self, *inputs: tf.Tensor) -> None:
        """Adds a replica for acting."""
        values = tf.identity(self.checked_q_values(inputs[0]), "state_action_values")
        tf.argmax(values, 1, name="greedy_action")

    def checked_q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network, and checks the return value of `q_values`.

        Raises:
            ModelError: it does not contain a value for each action.
        """
        values = self.q_values(observation)
        wanted = f"{type(self).__name__}.q_values must return a value for each action, float [batch, "
        if not tf.is_tensor(values) or not values.dtype.is_floating:
            raise ModelError(f"{wanted}{self._choices}]; received {values!r}.")
        if values.shape.rank != 2 or values.shape[1] != self._choices:
            raise ModelError(f"{wanted}{self._choices}]; received shape {values.shape}.")
        return tf.cast(values, tf.float32)
