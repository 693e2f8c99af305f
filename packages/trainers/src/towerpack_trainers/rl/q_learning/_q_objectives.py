"""Objectives of action values: errors with respect to targets of a second network."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from ..._errors import ConfigError

__all__ = ["DoubleQ", "MaxQ", "QObjective", "huber"]


@attrs.frozen
class QObjective(abc.ABC):
    """Makes targets for the values of actions.

    The target is `reward + discount * next_value`. Reward and discount are those of n steps in the memory:
    after a termination the discount is 0; after a truncation the value of the last observation counts.

    Args:
        n_step: the number of steps that the memory joins into one transition. None accepts any memory; a
            number is checked.
        gamma: the discount of rewards in the memory, checked likewise.
        delta: errors up to this size are squared, larger ones count linearly (Huber 1964).

    Raises:
        ConfigError: `delta` is not positive.
    """

    n_step: int | None = None
    gamma: float | None = None
    delta: float = 1.0

    def __attrs_post_init__(self) -> None:
        if not self.delta > 0:
            raise ConfigError(f"{type(self).__name__}(delta={self.delta!r}): expected a positive number.")

    @abc.abstractmethod
    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values of the next observations, float32 [batch].

        Args:
            online: adds the trained network, and returns its values of the next observations, float32
                [batch, actions].
            target: the target network's values of their actions, float32 [batch, actions].
        """


@final
@attrs.frozen
class MaxQ(QObjective):
    """Uses the largest value of the target network.

    After Mnih et al. 2015, "Human-level control through deep reinforcement learning".

    Args:
        n_step: see `QObjective`.
        gamma: see `QObjective`.
        delta: see `QObjective`.
    """

    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values."""
        return tf.reduce_max(target, 1)


@final
@attrs.frozen
class DoubleQ(QObjective):
    """Uses the target network's value of the action that the trained network selects.

    This separates the selection of an action from the estimate of its value, so they do not share the same
    noise (van Hasselt et al. 2016, "Deep Reinforcement Learning with Double Q-learning", arXiv:1509.06461).

    Args:
        n_step: see `QObjective`.
        gamma: see `QObjective`.
        delta: see `QObjective`.
    """

    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values."""
        return tf.gather(target, tf.argmax(online(), 1), batch_dims=1)


def huber(error: tf.Tensor, delta: float) -> tf.Tensor:
    """Returns half the square of errors up to `delta`, and a linear function with the same slope beyond."""
    size = tf.abs(error)
    squared = tf.minimum(size, delta)
    return 0.5 * tf.square(squared) + delta * (size - squared)
