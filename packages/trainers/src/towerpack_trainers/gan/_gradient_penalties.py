"""Penalties on the gradient of a discriminator with respect to its input, which keep it smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import random_uniform

from .._argument_checks import at_least
from .._errors import ModelError

__all__ = ["every_k_steps", "gradient_penalty", "r1_penalty"]

Critic = Callable[[tf.Tensor], tf.Tensor]


def gradient_penalty(
    critic: Critic, real: tf.Tensor, fake: tf.Tensor, target: float = 1.0, name: str = "gradient_penalty"
) -> tf.Tensor:
    """Returns the mean squared difference of a critic's gradient norms from 1, between real and generated.

    Each pair of a real and a generated example gives one point between them, drawn uniformly with
    `towerpack_layers.random_uniform`, so that a resumed run draws the same numbers.

    Args:
        critic: the discriminator, with variables reused: maps examples to one score for each.
        real: float tensor of real examples, `[batch, ...]`.
        fake: generated examples, of the same shape.
        target: the gradient norm without penalty.
        name: the name scope of the random numbers.

    Returns:
        Scalar; the usual weight is 10.

    Raises:
        ModelError: the shapes differ, or the scores do not depend on the examples.

    References:
        Gulrajani et al., "Improved Training of Wasserstein GANs" (2017), arXiv:1704.00028, equation 3.
    """
    if not real.shape.is_compatible_with(fake.shape):
        raise ModelError(
            f"gradient_penalty: real has shape {real.shape} and fake has shape {fake.shape}; expected equal "
            "shapes."
        )
    batch = tf.shape(real)[:1]
    ones = tf.ones([real.shape.rank - 1], tf.int32)
    share = random_uniform(name, tf.concat([batch, ones], 0), dtype=real.dtype)
    points = real + share * (fake - real)
    # The derivative of a norm at 0 is not finite, and a ReLU network has points with gradient 0.
    norms = tf.sqrt(_squared_gradient_norms(critic, points, "gradient_penalty") + 1e-12)
    return tf.reduce_mean(tf.square(norms - target))


def r1_penalty(critic: Critic, real: tf.Tensor) -> tf.Tensor:
    """Returns half the mean squared norm of a discriminator's gradient at real examples.

    Args:
        critic: the discriminator, with variables reused: maps examples to one logit for each.
        real: float tensor of real examples, `[batch, ...]`.

    Returns:
        Scalar; the weight is called gamma, usually from 0.1 to 10.

    Raises:
        ModelError: the logits do not depend on the examples.

    References:
        Mescheder, Geiger and Nowozin, "Which Training Methods for GANs do actually Converge?" (2018),
        arXiv:1801.04406, equation 9.
    """
    # A separate tensor: the critic's other output for these examples must not contribute to the gradient.
    return tf.reduce_mean(_squared_gradient_norms(critic, tf.identity(real), "r1_penalty")) / 2


def every_k_steps(k: int, make_penalty: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Returns a penalty that is computed at each k-th step and multiplied by k: "lazy" regularization.

    The steps are those of the training (`global_step`): with `d_steps` greater than 1, all critic steps of
    each k-th round. At the other steps it is 0 and costs nothing.

    Args:
        k: the period in steps, at least 1.
        make_penalty: makes the penalty, a scalar, from existing variables.

    Raises:
        ConfigError: k is not a whole number of at least 1.

    References:
        Karras et al., "Analyzing and Improving the Image Quality of StyleGAN" (2020), arXiv:1912.04958,
        appendix B.
    """
    count = at_least("every_k_steps", "k", k)
    if count == 1:
        return make_penalty()
    step = tf.train.get_or_create_global_step().read_value()
    made: list[tf.Tensor] = []

    def compute() -> tf.Tensor:
        made.append(make_penalty())
        return count * made[0]

    # TensorFlow builds the branches in order, so the dtype is known in the second one.
    return tf.cond(tf.equal(step % count, 0), compute, lambda: tf.zeros([], made[0].dtype))


def _squared_gradient_norms(critic: Critic, points: tf.Tensor, function: str) -> tf.Tensor:
    """Returns the squared norm of the gradient of each example's score."""
    [gradient] = tf.gradients(critic(points), [points])
    if gradient is None:
        raise ModelError(
            f"{function}: the critic's output does not depend on its input. It must return the scores of its "
            "argument."
        )
    axes: Any = tf.range(1, tf.rank(gradient))
    return tf.reduce_sum(tf.square(gradient), axes)
