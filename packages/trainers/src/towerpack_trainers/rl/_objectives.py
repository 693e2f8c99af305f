"""Objectives of policies: the costs of PPO and of A2C."""

from __future__ import annotations

import abc
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary

from ._distributions import Distribution

__all__ = ["A2CObjective", "PPOObjective", "PolicyObjective"]


class PolicyObjective(abc.ABC):
    """Makes the cost of a policy and its values from a batch of a rollout."""

    @abc.abstractmethod
    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost, a scalar.

        Args:
            distribution: the policy for the batch's observations.
            value: float32 [batch], the estimated values of these observations.
            batch: the batch, as tensors: `RolloutTensors`.
        """


@final
@attrs.frozen
class PPOObjective(PolicyObjective):
    """The clipped objective of Schulman et al. 2017, "Proximal Policy Optimization Algorithms", equation 9.

    Args:
        clip: the limit for the change of an action's probability, epsilon in the paper.
        value: weight of the squared error of values.
        entropy: weight of the entropy, which is maximised.
        normalize: whether to normalise each batch's advantages to mean 0 and standard deviation 1.
    """

    clip: float = 0.2
    value: float = 0.5
    entropy: float = 0.0
    normalize: bool = True

    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost."""
        advantage = _normalized(batch.advantage) if self.normalize else batch.advantage
        ratio = tf.exp(distribution.log_probability(batch.action) - batch.old_log_probability)
        clipped = tf.clip_by_value(ratio, 1 - self.clip, 1 + self.clip)
        policy = _mean(-tf.minimum(ratio * advantage, clipped * advantage), "policy_cost")
        clipped_share = _mean(tf.cast(tf.abs(ratio - 1) > self.clip, tf.float32), "clipped_share")
        add_moving_summary(clipped_share)
        return _total(policy, distribution, value, batch.value_target, self.value, self.entropy)


@final
@attrs.frozen
class A2CObjective(PolicyObjective):
    """The advantage actor-critic of Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning".

    Args:
        value: weight of the squared error of values.
        entropy: weight of the entropy, which is maximised.
        normalize: whether to normalise each batch's advantages to mean 0 and standard deviation 1.
    """

    value: float = 0.5
    entropy: float = 0.01
    normalize: bool = False

    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost."""
        advantage = _normalized(batch.advantage) if self.normalize else batch.advantage
        lost = -distribution.log_probability(batch.action) * advantage
        policy = _mean(lost, "policy_cost")
        return _total(policy, distribution, value, batch.value_target, self.value, self.entropy)


def _total(
    policy: tf.Tensor,
    distribution: Distribution,
    value: tf.Tensor,
    target: tf.Tensor,
    value_weight: float,
    entropy_weight: float,
) -> tf.Tensor:
    of_values = _mean(tf.square(value - target), "value_cost")
    entropy = _mean(distribution.entropy(), "entropy")
    add_moving_summary(policy, of_values, entropy)
    return tf.identity(policy + value_weight * of_values - entropy_weight * entropy, name="cost")


def _normalized(advantage: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(advantage, [0])
    return (advantage - mean) / (tf.sqrt(variance) + 1e-8)


def _mean(numbers: tf.Tensor, name: str) -> tf.Tensor:
    """Averages numbers; 0 for an empty batch, which occurs if each of its few steps was only a reset."""
    count = tf.cast(tf.size(numbers), tf.float32)
    return tf.div_no_nan(tf.reduce_sum(numbers), count, name=name)
