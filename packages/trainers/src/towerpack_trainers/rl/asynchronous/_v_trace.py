"""V-trace: targets for a policy and its values from the data of an older policy (Espeholt et al. 2018)."""

from __future__ import annotations

from typing import NamedTuple, final

import tensorflow.compat.v1 as tf

from ..._errors import ModelError

__all__ = ["VTrace", "v_trace"]


@final
class VTrace(NamedTuple):
    """Learning targets from trajectories; no gradient flows through them.

    Attributes:
        value_target: float32 [batch, steps], v in the paper.
        advantage: float32 [batch, steps], the factor of the gradient of the policy's logarithm: the clipped
            ratio times (r + discount * next target - value).
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
