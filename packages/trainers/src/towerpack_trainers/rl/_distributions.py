"""Distributions of actions, as returned by a policy."""

from __future__ import annotations

import abc
import math
from typing import final

import tensorflow.compat.v1 as tf

from .._renamed import renamed_arguments

__all__ = ["Categorical", "DiagonalGaussian", "Distribution"]


class Distribution(abc.ABC):
    """A distribution of one action for each observation of a batch.

    Attributes:
        action_dtype: the dtype of its actions.
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
        """The shape of one action; for one of several choices, the number of choices instead of ()."""


@final
class Categorical(Distribution):
    """One of several choices.

    Args:
        logits: float tensor of shape [batch, choices].
    """

    action_dtype = tf.int64

    def __init__(self, logits: tf.Tensor) -> None:
        self._logs = tf.nn.log_softmax(tf.cast(logits, tf.float32))

    @property
    def action_shape(self) -> list[int | None]:
        """The number of choices."""
        return self._logs.shape[1:].as_list()  # type: ignore[no-any-return]

    @renamed_arguments(draw="rng_key")
    def sample(self, rng_key: tf.Tensor) -> tf.Tensor:
        """Draws choices with the Gumbel trick: the largest of logits plus noise."""
        numbers = tf.random.stateless_uniform(tf.shape(self._logs), rng_key, minval=1e-20, maxval=1.0)
        return tf.argmax(self._logs - tf.log(-tf.log(numbers)), 1)

    def mode(self) -> tf.Tensor:
        """Returns the most probable choices."""
        return tf.argmax(self._logs, 1)

    def log_probability(self, action: tf.Tensor) -> tf.Tensor:
        """Returns the log-probabilities of choices."""
        chosen = tf.one_hot(action, tf.shape(self._logs)[1], dtype=tf.float32)
        # Not by a sum of products: if the logarithm is -inf, 0 times it is not a number.
        return tf.reduce_sum(tf.where(chosen > 0, self._logs, tf.zeros_like(self._logs)), 1)

    def entropy(self) -> tf.Tensor:
        """Returns the entropies."""
        return -tf.reduce_sum(tf.math.multiply_no_nan(self._logs, tf.exp(self._logs)), 1)


@final
class DiagonalGaussian(Distribution):
    """Independent normal distributions of numbers.

    Args:
        mean: float tensor of shape [batch, ...].
        log_std: logarithm of the standard deviations, of a shape that broadcasts to that of `mean`.
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
