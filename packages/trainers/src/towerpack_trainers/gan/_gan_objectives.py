"""The two objectives of a generative adversarial network, as a tower function for any builder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from .._argument_checks import make_optimizer
from .._errors import ConfigError, ModelError
from ..base import TowerTrainer
from ..config._train_config import TrainConfig
from ..replicate import independent_optimizer
from ..towers._objective import Objective
from ._adversarial_costs import GANCosts
from ._gan_model import GANModelDesc

__all__ = ["DISCRIMINATOR", "GENERATOR", "as_objectives", "gan_model"]

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
            Objective(costs.discriminator, discriminator, lambda: pair.get(1)),
            Objective(costs.generator, generator, lambda: pair.get(0)),
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
