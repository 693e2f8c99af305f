"""The costs of the two networks, from the discriminator's outputs for real and generated examples."""

from __future__ import annotations

from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import ModelError
from ..towers._cost_gradients import check_cost

__all__ = [
    "GANCosts",
    "hinge_costs",
    "least_squares_costs",
    "minimax_costs",
    "non_saturating_costs",
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
