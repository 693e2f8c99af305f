"""The description of an agent with a policy and a value estimate."""

from __future__ import annotations

import abc

import tensorflow.compat.v1 as tf

from .._errors import ModelError
from .._renamed import renamed_arguments
from ._agent_model import AgentModel
from ._distributions import Distribution

__all__ = ["PolicyModel"]


class PolicyModel(AgentModel):
    """Describes a policy and a value function. Subclass it, and override `policy` and `optimizer`.

    Trainers such as `PPOTrainer` add the inputs for learning. The model itself predicts: a predictor with the
    input "observation" has the outputs "greedy_action" (the most probable action), "sampled_action" (drawn
    with the further input "rng_key", two whole numbers), "action_log_probability" (of the sampled action),
    and "state_value". Actions are those of the distribution: choices count from 0, numbers are not clipped to
    a box.

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete` or a `Box` of floats.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents do not support such a space.

    Example:
        ```python
        class CartPole(PolicyModel):
            def policy(self, observation):
                hidden = FullyConnected("hidden", observation, 64, activation=tf.nn.tanh)
                logits = FullyConnected("logits", hidden, self.action_space.n)
                return Categorical(logits), FullyConnected("value", hidden, 1)[:, 0]

            def optimizer(self):
                return tf.train.AdamOptimizer(1e-3)

        model = CartPole.of(envs)
        ```
    """

    @abc.abstractmethod
    def policy(self, observation: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """Adds the networks to the graph.

        Args:
            observation: a batch of observations, with the dtype of the space.

        Returns:
            The distribution of actions, such as `Categorical(logits)`, and the values: float32 [batch].
        """

    def build_graph(self, *inputs: tf.Tensor) -> None:
        """Adds a replica for acting."""
        self.add_acting(inputs[0], tf.zeros([2], tf.int64))

    @renamed_arguments(default_draw="default_rng_key")
    def add_acting(self, observation: tf.Tensor, default_rng_key: tf.Tensor) -> None:
        """Adds the networks, and the outputs for predictors.

        Args:
            observation: a batch of observations.
            default_rng_key: int64 [2], the random key of actions unless "rng_key" is fed.
        """
        distribution, value = self.checked_policy(observation)
        rng_key = tf.placeholder_with_default(default_rng_key, [2], "rng_key")
        sampled = tf.identity(distribution.sample(rng_key), "sampled_action")
        tf.identity(distribution.mode(), "greedy_action")
        tf.identity(distribution.log_probability(sampled), "action_log_probability")
        tf.identity(value, "state_value")

    def checked_policy(self, observation: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """Adds the networks, and checks the return value of `policy`.

        Raises:
            ModelError: it does not contain a distribution of such actions, or a value for each observation.
        """
        found = self.policy(observation)
        name = f"{type(self).__name__}.policy"
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], Distribution):
            raise ModelError(
                f"{name} must return a distribution of actions and the values, such as "
                f"(Categorical(logits), value); received {found!r}."
            )
        distribution, value = found
        wanted = [self._action.choices] if self._action.choices is not None else list(self._action.shape)
        if distribution.action_dtype != self._action.dtype or distribution.action_shape != wanted:
            kind = "Categorical" if self._action.choices is not None else "DiagonalGaussian"
            raise ModelError(
                f"{name} returned a {type(distribution).__name__} of {distribution.action_shape}; actions "
                f"of {self.action_space} need a {kind} of {wanted}."
            )
        value = tf.cast(value, tf.float32)
        if value.shape.rank != 1:
            raise ModelError(
                f"{name} must return one value for each observation, of shape [batch]; received shape "
                f"{value.shape}. Drop the last axis of a layer with one unit: value[:, 0]."
            )
        return distribution, value
