"""The description of an agent: its spaces, its distribution of actions, and its value estimate."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, Self, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._argument_checks import renamed_arguments
from .._errors import ConfigError, ModelError
from ..towers._model_desc import ModelDesc

__all__ = [
    "ActionSpec",
    "AgentModel",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "MultiCategorical",
    "PolicyModel",
    "action_spec",
    "observation_spec",
]


_ADVICE = "Wrap the environments, for example with gymnasium's FlattenObservation or TransformObservation."


@final
@attrs.frozen
class ActionSpec:
    """One action, as represented in the graph.

    Attributes:
        dtype: int64 for choices, else float32.
        shape: the shape of one action; () for one of several choices.
        space_dtype: the dtype of the environment's actions.
        choices: the number of choices; for several choices at once, the number of each; None for continuous
            actions.
        start: the number of the first choice, or of the first one of each.
        low, high: finite bounds of each value, of `shape` and of `space_dtype`; None for choices.
    """

    dtype: tf.DType
    shape: tuple[int, ...]
    space_dtype: np.dtype[Any]
    choices: int | tuple[int, ...] | None = None
    start: int | np.ndarray = 0
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def for_environment(self, actions: np.ndarray) -> np.ndarray:
        """Converts actions of the graph for the environment: shifted, or clipped to the bounds.

        Raises:
            ModelError: a value is NaN.
        """
        if self.choices is not None:
            return np.asarray(actions + self.start, self.space_dtype)
        if np.isnan(actions).any():
            raise ModelError(
                "The policy returned actions that are not numbers (NaN), which no environment accepts. Its "
                "weights have become NaN; lower the learning rate, or clip gradients with GlobalNormClip."
            )
        with np.errstate(over="ignore"):  # values beyond the largest float16 are clipped to the bounds
            numbers = np.asarray(actions, self.space_dtype)
        # Bounds rounded to another dtype could leave an action outside of the space.
        clipped: np.ndarray = np.clip(numbers, self.low, self.high)
        return clipped


def observation_spec(space: Any) -> tf.TensorSpec:
    """Returns the spec of a batch of observations in the graph.

    Args:
        space: the space of one observation: a gymnasium `Box`, or any object with `shape` and a numeric
            `dtype`.

    Raises:
        ConfigError: the space is a composite, or does not contain arrays.
    """
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "buif":
        raise ConfigError(
            f"Observations of an agent must be arrays of numbers, of a space such as Box; received "
            f"{space!r}. {_ADVICE}"
        )
    return tf.TensorSpec([None, *shape], tf.as_dtype(np.dtype(dtype)), "observation")


def action_spec(space: Any) -> ActionSpec:
    """Returns the spec of an action in the graph.

    Args:
        space: the space of one action: a gymnasium `Discrete`, `MultiDiscrete` or `Box` of floats.

    Raises:
        ConfigError: it is none of them.
    """
    dtype = getattr(space, "dtype", None)
    nvec = getattr(space, "nvec", None)
    if nvec is not None and np.ndim(nvec) == 1:
        choices = tuple(map(int, nvec))
        start = np.asarray(getattr(space, "start", 0))
        return ActionSpec(tf.int64, (len(choices),), np.dtype(dtype), choices, start)
    if getattr(space, "n", None) is not None and np.ndim(space.n) == 0 and np.dtype(dtype).kind in "iu":
        return ActionSpec(tf.int64, (), np.dtype(dtype), int(space.n), int(getattr(space, "start", 0)))
    if getattr(space, "low", None) is not None and np.dtype(dtype).kind == "f":
        finite = np.finfo(dtype)
        low, high = np.maximum(space.low, finite.min), np.minimum(space.high, finite.max)
        return ActionSpec(tf.float32, tuple(space.shape), np.dtype(dtype), low=low, high=high)
    raise ConfigError(
        f"Actions of an agent must be of a Discrete space, of a MultiDiscrete space with one axis, or of a "
        f"Box of floats; received {space!r}. "
        "Wrap the environments, for example with gymnasium's TransformAction."
    )


class AgentModel(ModelDesc):
    """Describes an agent. A subclass defines the networks.

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete`, `MultiDiscrete` or `Box` of floats.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents do not support such a space.
    """

    data_from_trainer = True

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._observation = observation_spec(observation_space)
        self._action = action_spec(action_space)

    @classmethod
    def of(cls, envs: Any, *arguments: Any, **named: Any) -> Self:
        """Makes the model for vector environments, or for a single one.

        Args:
            envs: an object with `single_observation_space` and `single_action_space`, or with
                `observation_space` and `action_space`.
            arguments, named: further arguments of the class.
        """
        prefix = "single_" if hasattr(envs, "single_action_space") else ""
        spaces = (getattr(envs, f"{prefix}{kind}_space") for kind in ("observation", "action"))
        return cls(*spaces, *arguments, **named)

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the only input of a predictor."""
        return [self._observation]


class Distribution(abc.ABC):
    """A distribution of one action for each observation of a batch.

    Attributes:
        action_dtype: the dtype of its actions.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     policy = Categorical(tf.constant([[0.0, 0.0]]))
        ...     print(session.run(policy.entropy()))
        [0.6931472]
    """

    action_dtype: tf.DType

    @abc.abstractmethod
    def sample(self, rng_key: tf.Tensor) -> tf.Tensor:
        """Draws an action for each observation.

        Args:
            rng_key: int64 of shape [2]; the same two numbers draw the same actions.
        """

    @abc.abstractmethod
    def mode(self) -> tf.Tensor:
        """Returns the most probable action for each observation."""

    @abc.abstractmethod
    def log_probability(self, action: tf.Tensor) -> tf.Tensor:
        """Returns the logarithm of the probability, or of its density, of given actions: float32 [batch]."""

    @abc.abstractmethod
    def entropy(self) -> tf.Tensor:
        """Returns the entropy in nats: float32 [batch]."""

    @property
    @abc.abstractmethod
    def action_shape(self) -> list[int | None]:
        """The shape of one action; for choices, the number of each choice instead."""


@final
class Categorical(Distribution):
    """One of several choices.

    Args:
        logits: float tensor of shape [batch, choices].

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     policy = Categorical(tf.constant([[0.0, 2.0, 1.0]]))
        ...     print(session.run([policy.mode(), policy.log_probability(tf.constant([1]))]))
        [array([1]), array([-0.40760604], dtype=float32)]
    """

    action_dtype = tf.int64

    def __init__(self, logits: tf.Tensor) -> None:
        self._logits = tf.cast(logits, tf.float32)

    @property
    def action_shape(self) -> list[int | None]:
        """The number of choices."""
        return self._logits.shape[1:].as_list()  # type: ignore[no-any-return]

    @renamed_arguments(draw="rng_key")
    def sample(self, rng_key: tf.Tensor) -> tf.Tensor:
        """Draws choices with the Gumbel trick: the largest of logits plus noise."""
        return tf.argmax(self._logits + _gumbel_noise(self._logits, rng_key), 1)

    def mode(self) -> tf.Tensor:
        """Returns the most probable choices."""
        return tf.argmax(self._logits, 1)

    def log_probability(self, action: tf.Tensor) -> tf.Tensor:
        """Returns the log-probabilities of choices."""
        # This op and its gradient replace about twenty ops.
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=self._logits)

    def entropy(self) -> tf.Tensor:
        """Returns the entropies."""
        logs = tf.nn.log_softmax(self._logits)
        return -tf.reduce_sum(tf.math.multiply_no_nan(logs, tf.exp(logs)), 1)


def _gumbel_noise(logits: tf.Tensor, rng_key: tf.Tensor) -> tf.Tensor:
    numbers = tf.random.stateless_uniform(tf.shape(logits), rng_key, minval=1e-20, maxval=1.0)
    return -tf.log(-tf.log(numbers))


@final
class MultiCategorical(Distribution):
    """Several independent choices at once, of a `MultiDiscrete` space.

    Args:
        logits: float tensor of shape [batch, sum of choices]: the logits of the first choice, then those of
            the next one.
        choices: the number of each choice, such as `action_space.nvec`.

    Raises:
        ModelError: the number of logits is not the sum of the choices.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     policy = MultiCategorical(tf.constant([[0.0, 2.0, 3.0, 1.0, 2.0]]), [2, 3])
        ...     print(session.run(policy.mode()))
        [[1 0]]
    """

    action_dtype = tf.int64

    def __init__(self, logits: tf.Tensor, choices: Sequence[int]) -> None:
        self._choices = [int(count) for count in choices]
        if logits.shape.rank != 2 or logits.shape[1] != sum(self._choices):
            raise ModelError(
                f"MultiCategorical(logits, choices={self._choices}): expected logits of shape [batch, "
                f"{sum(self._choices)}]; received shape {logits.shape}."
            )
        self._logits = tf.cast(logits, tf.float32)
        self._parts = [Categorical(part) for part in self._split(self._logits)]

    @property
    def action_shape(self) -> list[int | None]:
        """The number of each choice."""
        return [*self._choices]

    def sample(self, rng_key: tf.Tensor) -> tf.Tensor:
        """Draws choices with the Gumbel trick: int64 [batch, number of choices]."""
        noisy = self._logits + _gumbel_noise(self._logits, rng_key)
        return tf.stack([tf.argmax(part, 1) for part in self._split(noisy)], 1)

    def mode(self) -> tf.Tensor:
        """Returns the most probable choices."""
        return tf.stack([part.mode() for part in self._parts], 1)

    def log_probability(self, action: tf.Tensor) -> tf.Tensor:
        """Returns the log-probabilities of choices, summed over all choices of an action."""
        return tf.add_n([part.log_probability(action[:, n]) for n, part in enumerate(self._parts)])

    def entropy(self) -> tf.Tensor:
        """Returns the entropies, summed over all choices of an action."""
        return tf.add_n([part.entropy() for part in self._parts])

    def _split(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        return tf.split(numbers, self._choices, 1)  # type: ignore[no-any-return]


@final
class DiagonalGaussian(Distribution):
    """Independent normal distributions of numbers.

    Args:
        mean: float tensor of shape [batch, ...].
        log_std: logarithm of the standard deviations, of a shape that broadcasts to that of `mean`.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     policy = DiagonalGaussian(mean=tf.constant([[0.5, -1.0]]), log_std=tf.zeros([2]))
        ...     print(session.run(policy.mode()), policy.action_shape)
        [[ 0.5 -1. ]] [2]
    """

    action_dtype = tf.float32

    def __init__(self, mean: tf.Tensor, log_std: tf.Tensor) -> None:
        self._mean = tf.cast(mean, tf.float32)
        self._log_std = tf.cast(log_std, tf.float32) + tf.zeros_like(self._mean)

    @property
    def action_shape(self) -> list[int | None]:
        """The shape of one action."""
        return self._mean.shape[1:].as_list()  # type: ignore[no-any-return]

    @renamed_arguments(draw="rng_key")
    def sample(self, rng_key: tf.Tensor) -> tf.Tensor:
        """Draws values, without any bounds."""
        noise = tf.random.stateless_normal(tf.shape(self._mean), rng_key)
        return self._mean + tf.exp(self._log_std) * noise

    def mode(self) -> tf.Tensor:
        """Returns the means."""
        return self._mean

    def log_probability(self, action: tf.Tensor) -> tf.Tensor:
        """Returns the logarithms of the density of the given values."""
        distance = (action - self._mean) * tf.exp(-self._log_std)
        return self._sum(-0.5 * tf.square(distance) - self._log_std - 0.5 * math.log(2 * math.pi))

    def entropy(self) -> tf.Tensor:
        """Returns the entropies."""
        return self._sum(self._log_std + 0.5 * math.log(2 * math.pi * math.e))

    def _sum(self, of_numbers: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(of_numbers, list(range(1, of_numbers.shape.rank)))


class PolicyModel(AgentModel):
    """Describes a policy and a value function. Subclass it, and override `policy` and `optimizer`.

    Trainers such as `PPOTrainer` add the inputs for learning. The model itself predicts: a predictor with the
    input "observation" has the outputs "greedy_action" (the most probable action), "sampled_action" (drawn
    with the further input "rng_key", two whole numbers), "action_log_probability" (of the sampled action),
    and "state_value". Actions are those of the distribution: choices count from 0, numbers are not clipped to
    a box.

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete`, `MultiDiscrete` or `Box` of floats.

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
        choices = self._action.choices
        wanted = [*self._action.shape] if choices is None else np.atleast_1d(choices).tolist()
        if distribution.action_dtype != self._action.dtype or distribution.action_shape != wanted:
            kind = {int: "Categorical", tuple: "MultiCategorical"}.get(type(choices), "DiagonalGaussian")
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
