"""The cost of an actor-critic that learns from trajectories of older policies."""

from __future__ import annotations

from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary

from .._distributions import Distribution
from .._objectives import PolicyObjective
from ._v_trace import v_trace

__all__ = ["VTraceObjective"]


@final
@attrs.frozen
class VTraceObjective(PolicyObjective):
    """The actor-critic of Espeholt et al. 2018 (IMPALA, section 4.2), with V-trace targets.

    A truncated episode is bootstrapped with the value of its last observation; a terminated one is not.

    Args:
        discount: the discount of the reward one step later, gamma.
        value: weight of the squared error of values.
        entropy: weight of the entropy, which is maximised.
        clip_rho: see `v_trace`.
        clip_c: see `v_trace`.
    """

    discount: float = 0.99
    value: float = 0.5
    entropy: float = 0.01
    clip_rho: float = 1.0
    clip_c: float = 1.0

    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost.

        Args:
            distribution: the policy for all observations of the trajectories.
            value: float32 [batch * (steps + 1)], the values of these observations.
            batch: a `TrajectoryTensors`.
        """
        reward, behaviour = batch.reward, batch.behaviour_log_probability
        log_probability = _steps_of(distribution.log_probability(_with_last(batch.action)), reward)
        values = tf.reshape(value, [-1, reward.shape[1] + 1])
        discount = self.discount * (1 - tf.cast(batch.terminated, tf.float32))
        log_ratio = log_probability - behaviour
        target, advantage = v_trace(
            log_ratio, reward, discount, values, batch.valid, clip_rho=self.clip_rho, clip_c=self.clip_c
        )
        weight = tf.cast(batch.valid, tf.float32)
        weight /= tf.maximum(tf.reduce_sum(weight), 1)
        entropies = _steps_of(distribution.entropy(), reward)
        policy = tf.reduce_sum(-log_probability * advantage * weight, name="policy_cost")
        of_values = tf.reduce_sum(tf.square(values[:, :-1] - target) * weight, name="value_cost")
        entropy = tf.reduce_sum(entropies * weight, name="entropy")
        # 1 if the current policy made the trajectory.
        ratio = tf.reduce_sum(tf.minimum(tf.exp(log_ratio), self.clip_rho) * weight, name="clipped_ratio")
        add_moving_summary(policy, of_values, entropy, ratio)
        return tf.identity(policy + self.value * of_values - self.entropy * entropy, name="cost")


def _with_last(action: tf.Tensor) -> tf.Tensor:
    """Returns an action for each observation; that of a trajectory's last observation is arbitrary."""
    padded = tf.pad(action, [[0, 0], [0, 1], *[[0, 0]] * (action.shape.rank - 2)])
    return tf.reshape(padded, [-1, *action.shape[2:]])


def _steps_of(numbers: tf.Tensor, reward: tf.Tensor) -> tf.Tensor:
    """Returns the values at the first observations of steps, in the shape of the rewards."""
    return tf.reshape(numbers, [-1, reward.shape[1] + 1])[:, :-1]
