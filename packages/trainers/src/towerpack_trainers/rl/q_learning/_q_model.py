"""The description of an agent that estimates the value of each action."""

from __future__ import annotations

import abc
from typing import Any, Self

import tensorflow.compat.v1 as tf

from ..._errors import ConfigError, ModelError
from ...towers._model_desc import ModelDesc
from .._spaces import action_spec, observation_spec

__all__ = ["QModel"]


class QModel(ModelDesc):
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

    data_from_trainer = True

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._observation = observation_spec(observation_space)
        choices = action_spec(action_space).choices
        if choices is None:
            raise ConfigError(
                f"{type(self).__name__} estimates a value for each action, of which there must be finitely "
                f"many: a Discrete space; received {action_space!r}. PPOTrainer learns actions that are "
                "numbers."
            )
        self._choices = choices

    @classmethod
    def of(cls, envs: Any, *arguments: Any, **named: Any) -> Self:
        """Makes the model for vector environments, or for a single one.

        Args:
            envs: has `single_observation_space` and `single_action_space`, or `observation_space` and
                `action_space`.
            arguments, named: further arguments of the class.
        """
        prefix = "single_" if hasattr(envs, "single_action_space") else ""
        spaces = (getattr(envs, f"{prefix}{kind}_space") for kind in ("observation", "action"))
        return cls(*spaces, *arguments, **named)

    @abc.abstractmethod
    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network to the graph.

        Args:
            observation: a batch of observations, with the dtype of the space.

        Returns:
            The expected discounted return of each action: float [batch, actions]. See `dueling`.
        """

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the one input of a predictor."""
        return [self._observation]

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
