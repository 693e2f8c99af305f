"""The description of an agent that estimates the value of each action."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as tf

from ..._errors import ConfigError, ModelError
from .._agent_model import AgentModel

__all__ = ["QModel"]


class QModel(AgentModel):
    """Describes the values of actions. Subclass it, and override `q_values` and `optimizer`.

    `DQNTrainer` adds what it learns from. By itself, it predicts: a predictor of its "observation" has the
    outputs "greedy_action", the one of the largest value, and "state_action_values", float32
    [batch, actions].

    Args:
        observation_space: of one observation, a gymnasium `Box`.
        action_space: of one action, a gymnasium `Discrete`.

    Attributes:
        observation_space: as given.
        action_space: as given.

    Raises:
        ConfigError: an agent of this kind cannot have such a space.

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
                f"{type(self).__name__} estimates a value for each action, of which there must be finitely "
                f"many: a Discrete space; received {action_space!r}. PPOTrainer learns actions that are "
                "numbers."
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
        """Adds a replica that acts."""
        values = tf.identity(self.checked_q_values(inputs[0]), "state_action_values")
        tf.argmax(values, 1, name="greedy_action")

    def checked_q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network, and checks what `q_values` returned.

        Raises:
            ModelError: it is no value for each action.
        """
        values = self.q_values(observation)
        wanted = f"{type(self).__name__}.q_values must return a value for each action, float [batch, "
        if not tf.is_tensor(values) or not values.dtype.is_floating:
            raise ModelError(f"{wanted}{self._choices}]; received {values!r}.")
        if values.shape.rank != 2 or values.shape[1] != self._choices:
            raise ModelError(f"{wanted}{self._choices}]; received one of shape {values.shape}.")
        return tf.cast(values, tf.float32)
