"""The description of a generative adversarial network: two networks in two scopes, with two costs."""

from __future__ import annotations

import abc
import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from .._argument_checks import make_optimizer
from .._errors import ConfigError, ModelError
from ..base._tower_trainer import TowerTrainer
from ..config import TrainConfig
from ..replicate import independent_optimizer
from ..towers._model_desc import ModelDesc
from ..towers._objective import Objective
from ..towers._tower import name_cost
from ._adversarial_costs import GANCosts

__all__ = ["DISCRIMINATOR", "GENERATOR", "GANModelDesc", "as_objectives", "gan_model"]


class GANModelDesc(ModelDesc):
    """Describes a generator and a discriminator. Subclass it; trainers such as `GANTrainer` train it.

    Each trainable variable belongs to the network of its variable scope. The discriminator is called for
    real and for generated examples, the second time with `reuse=True`. Draw the generator's noise with
    `towerpack_layers.random_normal` or `random_uniform`, so that a resumed run continues with the same
    numbers; wrap it in `tf.placeholder_with_default` to name it and let predictors feed it.

    Attributes:
        generator_scope: the variable scope of the generator.
        discriminator_scope: the variable scope of the discriminator.

    Example:
        ```python
        class Digits(GANModelDesc):
            def inputs(self):
                return [tf.TensorSpec([None, 64], tf.float32, "real")]

            def build_graph(self, real):
                z = random_normal("noise", [tf.shape(real)[0], 16])
                z = tf.placeholder_with_default(z, [None, 16], "z")
                with tf.variable_scope("gen"):
                    fake = FullyConnected("fc", z, 64, activation=tf.nn.sigmoid)
                with tf.variable_scope("discrim"):
                    real_logits = FullyConnected("fc", real, 1)
                with tf.variable_scope("discrim", reuse=True):
                    fake_logits = FullyConnected("fc", fake, 1)
                return non_saturating_costs(real_logits, fake_logits)

            def optimizers(self):
                return tf.train.AdamOptimizer(1e-4, beta1=0.5), tf.train.AdamOptimizer(4e-4, beta1=0.5)
        ```
    """

    generator_scope = "gen"
    discriminator_scope = "discrim"

    @abc.abstractmethod
    def build_graph(self, *inputs: Any, **_: Any) -> GANCosts | None:
        """Adds one replica of both networks to the graph.

        Args:
            inputs: one tensor per element of `inputs()`.

        Returns:
            The two costs during training (see `training`); otherwise the value is ignored.
        """

    def optimizers(self) -> tuple[tf.train.Optimizer, tf.train.Optimizer]:
        """Makes the optimizers of generator and discriminator.

        By default both have the hyperparameters of `optimizer()`, which is called once, and separate state.
        """
        optimizer = self.optimizer()
        return optimizer, independent_optimizer(optimizer)

    def variables_of_networks(self) -> tuple[list[tf.Variable], list[tf.Variable]]:
        """Returns the trainable variables of the generator, and those of the discriminator.

        Raises:
            ModelError: a variable is in neither scope or in both, or a scope has no variable.
        """
        generator, discriminator = f"{self.generator_scope}/", f"{self.discriminator_scope}/"
        variables = tf.trainable_variables()
        in_generator = [v for v in variables if v.op.name.startswith(generator)]
        in_discriminator = [v for v in variables if v.op.name.startswith(discriminator)]
        self._check(variables, in_generator, in_discriminator)
        return in_generator, in_discriminator

    def _check(
        self,
        variables: Sequence[tf.Variable],
        generator: Sequence[tf.Variable],
        discriminator: Sequence[tf.Variable],
    ) -> None:
        scopes = f"{self.generator_scope!r} and {self.discriminator_scope!r}, the networks' scopes"
        names = [variable.op.name for variable in variables]
        owners = collections.Counter(variable.op.name for variable in [*generator, *discriminator])
        neither = [name for name in names if not owners[name]]
        if neither:
            raise ModelError(
                f"{type(self).__name__}: these trainable variables are in neither of {scopes}, so they "
                f"belong to no network: {', '.join(neither)}. Make them inside the tf.variable_scope of one "
                "of the two, or with trainable=False."
            )
        both = [name for name in names if owners[name] == 2]
        if both:
            raise ModelError(
                f"{type(self).__name__}: these trainable variables are in both of {scopes}: "
                f"{', '.join(both)}. Use two scopes that are not nested."
            )
        for scope, found in ((self.generator_scope, generator), (self.discriminator_scope, discriminator)):
            if not found:
                raise ModelError(
                    f"{type(self).__name__} has no trainable variable in {scope!r}; there are: "
                    f"{', '.join(names) or 'none'}. Build that network inside "
                    f"tf.variable_scope({scope!r}), or set the attribute to its scope."
                )


# The indices of the two objectives, and of a builder's updates.
DISCRIMINATOR, GENERATOR = 0, 1


def gan_model(trainer: TowerTrainer) -> GANModelDesc:
    """Returns a trainer's model.

    Raises:
        ConfigError: the model is not a `GANModelDesc`.
    """
    model = trainer.model
    if not isinstance(model, GANModelDesc):
        raise ConfigError(
            f"{type(trainer).__name__} trains a GANModelDesc with two costs; received the model {model!r}. "
            "Use SimpleTrainer or a similar trainer for a ModelDesc with one cost."
        )
    return model


def as_objectives(trainer: TowerTrainer) -> Callable[..., list[Objective] | None]:
    """Makes a tower function that returns the objectives of a model's networks, the discriminator's first.

    Args:
        trainer: the trainer with the model and the configuration; an optimizer in the configuration replaces
            those of the model.

    Raises:
        ConfigError: the model is not a `GANModelDesc`; or (when a builder requests an optimizer) the model
            does not make two optimizers.
        ModelError: (in the tower function) the model returned no costs, or a variable belongs to no network.
    """
    model = gan_model(trainer)
    pair = _Optimizers(model, trainer.config)

    @functools.wraps(model.build_graph)
    def build(*inputs: tf.Tensor) -> list[Objective] | None:
        costs = model.build_graph(*inputs)
        context = get_current_tower_context()
        if context is None or not context.is_training:
            return None
        if not isinstance(costs, GANCosts):
            raise ModelError(
                f"{type(model).__name__}.build_graph must return GANCosts(generator=..., discriminator=...), "
                f"two scalar costs; received {costs!r}. Use a function such as non_saturating_costs."
            )
        # In the other towers, the variables of the first tower are found by name.
        generator, discriminator = (None, None) if context.index else model.variables_of_networks()
        return [
            Objective(name_cost(costs.discriminator, "discriminator_"), discriminator, lambda: pair.get(1)),
            Objective(name_cost(costs.generator, "generator_"), generator, lambda: pair.get(0)),
        ]

    return build


@final
class _Optimizers:
    """Makes the optimizers of generator and discriminator at the first use."""

    def __init__(self, model: GANModelDesc, config: TrainConfig) -> None:
        self._model, self._config = model, config
        self._made: list[tf.train.Optimizer] = []

    def get(self, number: int) -> tf.train.Optimizer:
        if not self._made:
            self._made = self._make()
        return self._made[number]

    def _make(self) -> list[tf.train.Optimizer]:
        if self._config.optimizer is not None:
            optimizer = self._config.make_optimizer()
            return [optimizer, independent_optimizer(optimizer)]
        given: Any = self._model.optimizers()
        if not isinstance(given, (list, tuple)) or len(given) != 2:
            raise ConfigError(
                f"{type(self._model).__name__}.optimizers() must return two optimizers, first the "
                f"generator's, then the discriminator's; received {given!r}. Or define optimizer(), for both."
            )
        return [make_optimizer(optimizer, ConfigError) for optimizer in given]
