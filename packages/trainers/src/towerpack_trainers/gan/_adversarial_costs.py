"""The costs of the two networks, and penalties on the gradient of a discriminator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_layers import random_uniform

from .._argument_checks import at_least
from .._errors import ModelError
from ..towers._objective import check_cost

__all__ = [
    "GANCosts",
    "every_k_steps",
    "gradient_penalty",
    "hinge_costs",
    "least_squares_costs",
    "minimax_costs",
    "non_saturating_costs",
    "r1_penalty",
    "wasserstein_costs",
]


def _check(costs: GANCosts, attribute: attrs.Attribute[Any], value: Any) -> None:
    check_cost(value, f"GANCosts({attribute.name}=...) takes")


@final
@attrs.frozen(eq=False)
class GANCosts:
    """The costs of the two networks of one tower; `attrs.evolve` adds a penalty to one of them.

    Args:
        generator: a scalar float tensor, minimised by the generator's variables.
        discriminator: the same for the discriminator.

    Raises:
        ModelError: a cost is not a scalar float tensor.

    Example:
        ```python
        costs = wasserstein_costs(real_scores, fake_scores)
        penalty = 10 * gradient_penalty(critic, real, fake)
        return attrs.evolve(costs, discriminator=costs.discriminator + penalty)
        ```
    """

    generator: tf.Tensor = attrs.field(validator=_check)
    discriminator: tf.Tensor = attrs.field(validator=_check)


def minimax_costs(real: tf.Tensor, fake: tf.Tensor) -> GANCosts:
    """Returns the costs of the minimax game: the generator maximises the discriminator's cost.

    The generator learns slowly while the discriminator is confident; `non_saturating_costs` is the usual
    remedy.

    Args:
        real: logits of the discriminator for real examples, of any shape.
        fake: logits of the discriminator for generated examples.

    Raises:
        ModelError: an argument is not a float tensor.

    References:
        Goodfellow et al., "Generative Adversarial Nets" (2014), arXiv:1406.2661, equation 1.
    """
    _check_outputs("minimax_costs", real, fake)
    says_fake = tf.reduce_mean(tf.nn.softplus(fake))
    return _name(-says_fake, tf.reduce_mean(tf.nn.softplus(-real)) + says_fake)


def non_saturating_costs(real: tf.Tensor, fake: tf.Tensor) -> GANCosts:
    """Returns costs with a generator gradient that does not vanish while the discriminator is confident.

    Args:
        real: logits of the discriminator for real examples, of any shape.
        fake: logits of the discriminator for generated examples.

    Raises:
        ModelError: an argument is not a float tensor.

    References:
        Goodfellow et al., "Generative Adversarial Nets" (2014), arXiv:1406.2661, section 3.
    """
    _check_outputs("non_saturating_costs", real, fake)
    discriminator = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))
    return _name(tf.reduce_mean(tf.nn.softplus(-fake)), discriminator)


def hinge_costs(real: tf.Tensor, fake: tf.Tensor) -> GANCosts:
    """Returns hinge costs, which ignore examples that the discriminator classifies with a margin of 1.

    Args:
        real: outputs of the discriminator for real examples, of any shape.
        fake: outputs of the discriminator for generated examples.

    Raises:
        ModelError: an argument is not a float tensor.

    References:
        Lim and Ye, "Geometric GAN" (2017), arXiv:1705.02894.
    """
    _check_outputs("hinge_costs", real, fake)
    return _name(
        -tf.reduce_mean(fake), tf.reduce_mean(tf.nn.relu(1 - real)) + tf.reduce_mean(tf.nn.relu(1 + fake))
    )


def least_squares_costs(real: tf.Tensor, fake: tf.Tensor) -> GANCosts:
    """Returns squared distances of the discriminator's outputs from 1 for real, and 0 for generated examples.

    Args:
        real: outputs of the discriminator for real examples, of any shape.
        fake: outputs of the discriminator for generated examples.

    Raises:
        ModelError: an argument is not a float tensor.

    References:
        Mao et al., "Least Squares Generative Adversarial Networks" (2017), arXiv:1611.04076, equation 9.
    """
    _check_outputs("least_squares_costs", real, fake)
    discriminator = (tf.reduce_mean(tf.square(real - 1)) + tf.reduce_mean(tf.square(fake))) / 2
    return _name(tf.reduce_mean(tf.square(fake - 1)) / 2, discriminator)


def wasserstein_costs(real: tf.Tensor, fake: tf.Tensor) -> GANCosts:
    """Returns the costs with which a critic estimates the Wasserstein distance. Keep the critic Lipschitz.

    Use `gradient_penalty` or weight clipping for that.

    Args:
        real: scores of the critic for real examples, of any shape.
        fake: scores of the critic for generated examples.

    Raises:
        ModelError: an argument is not a float tensor.

    References:
        Arjovsky, Chintala and Bottou, "Wasserstein GAN" (2017), arXiv:1701.07875.
    """
    _check_outputs("wasserstein_costs", real, fake)
    fake_score = tf.reduce_mean(fake)
    return _name(-fake_score, fake_score - tf.reduce_mean(real))


def _name(generator: tf.Tensor, discriminator: tf.Tensor) -> GANCosts:
    return GANCosts(
        generator=tf.identity(generator, "generator_cost"),
        discriminator=tf.identity(discriminator, "discriminator_cost"),
    )


def _check_outputs(function: str, real: Any, fake: Any) -> None:
    for name, value in (("real", real), ("fake", fake)):
        if not tf.is_tensor(value) or not value.dtype.is_floating:
            raise ModelError(
                f"{function}({name}=...) takes a float tensor of the discriminator's outputs, received "
                f"{value!r}."
            )


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
