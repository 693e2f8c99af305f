"""V-trace: targets for a policy and its values from the data of an older policy (Espeholt et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary

from .._errors import ModelError
from ._on_policy import PolicyObjective
from ._policy_model import Distribution

__all__ = ["VTrace", "VTraceObjective", "v_trace"]


@final
class VTrace(NamedTuple):
    """Learning targets from trajectories; no gradient flows through them.

    Attributes:
        value_target: float32 [batch, steps], v in the paper.
        advantage: float32 [batch, steps], the factor of the gradient of the policy's logarithm: the clipped
            ratio times (r + discount * next target - value).

    Example:
        >>> with tf.Graph().as_default():
        ...     zeros, values = tf.zeros([4, 16]), tf.zeros([4, 17])
        ...     targets = v_trace(zeros, zeros, zeros, values)
        >>> targets.advantage.shape.as_list()
        [4, 16]
    """

    value_target: tf.Tensor
    advantage: tf.Tensor


def v_trace(
    log_ratio: tf.Tensor,
    reward: tf.Tensor,
    discount: tf.Tensor,
    value: tf.Tensor,
    valid: tf.Tensor | None = None,
    *,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> VTrace:
    """Adds the targets and advantages of trajectories of an older policy.

    They follow equation 1 and section 4.2 of "IMPALA: Scalable Distributed Deep-RL with Importance Weighted
    Actor-Learner Architectures". If the current policy made the trajectories, the targets are n-step returns
    up to the trajectory's end.

    Args:
        log_ratio: float32 [batch, steps], the logarithm of the ratio between each action's current
            probability and its probability when it was taken. The number of steps is static.
        reward: float32 [batch, steps].
        discount: float32 [batch, steps], the discount of the values after the step; 0 if an episode
            terminates.
        value: float32 [batch, steps + 1], the values of the observations; the last one is after the last
            step.
        valid: bool [batch, steps]; an invalid step, such as a reset, has its own value as target, advantage
            0, and no influence on other steps. None: all are valid.
        clip_rho: the largest ratio of a step's own correction.
        clip_c: the largest ratio for the corrections of later steps.

    Raises:
        ModelError: the shapes do not match, or the number of steps is unknown.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     same = tf.zeros([1, 2])
        ...     found = v_trace(same, tf.ones([1, 2]), 0.5 + same, tf.constant([[0.0, 0.0, 8.0]]))
        ...     session.run(found.value_target).tolist()
        [[3.5, 5.0]]
    """
    steps = _checked_steps(log_ratio, reward, discount, value)
    ratio = tf.exp(tf.stop_gradient(log_ratio))
    if valid is not None:
        ratio = tf.where(valid, ratio, tf.zeros_like(ratio))
    value = tf.stop_gradient(value)
    rho, trace = tf.minimum(ratio, clip_rho), tf.minimum(ratio, clip_c)
    now, after = value[:, :-1], value[:, 1:]
    delta = rho * (reward + discount * after - now)
    decay = discount * trace
    # The difference between each target and its value, from the last step to the first. The loop is in
    # Python, since a loop in the graph takes longer for so few numbers.
    excess = [tf.zeros_like(delta[:, 0])]
    for step in reversed(range(steps)):
        excess.append(delta[:, step] + decay[:, step] * excess[-1])
    above = tf.stack(excess[::-1], 1)
    next_target = after + above[:, 1:]
    advantage = rho * (reward + discount * next_target - now)
    return VTrace(tf.stop_gradient(now + above[:, :-1]), tf.stop_gradient(advantage))


def _checked_steps(log_ratio: tf.Tensor, reward: tf.Tensor, discount: tf.Tensor, value: tf.Tensor) -> int:
    shapes = {"log_ratio": log_ratio.shape, "reward": reward.shape, "discount": discount.shape}
    steps: int | None = log_ratio.shape[1] if log_ratio.shape.rank == 2 else None
    if steps is not None:
        fit = all(shape.is_compatible_with(log_ratio.shape) for shape in shapes.values())
        if fit and value.shape.is_compatible_with([log_ratio.shape[0], steps + 1]):
            return steps
    given = ", ".join(f"{name} {shape}" for name, shape in {**shapes, "value": value.shape}.items())
    raise ModelError(
        "v_trace takes arrays of [batch, steps], and values of [batch, steps + 1], with a static number of "
        f"steps; received {given}."
    )


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

    Example:
        >>> VTraceObjective(discount=0.995, entropy=0.001).discount
        0.995
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
