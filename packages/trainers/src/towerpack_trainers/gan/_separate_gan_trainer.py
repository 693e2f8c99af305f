"""A trainer of generative adversarial networks that counts the steps of both networks separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, argscope

from .._argument_checks import at_least
from .._errors import ConfigError
from ..base import BuilderTrainer
from ..config._train_config import TrainConfig
from ._gan_objectives import DISCRIMINATOR, GENERATOR, as_objectives

__all__ = ["SeparateGANTrainer"]


@final
class SeparateGANTrainer(BuilderTrainer):
    """Trains discriminator and generator in turn, each step with a new batch.

    An epoch counts turns. The discriminator makes a step in each `d_period`-th turn, then the generator makes
    one in each `g_period`-th. As in Tensorpack, `global_step` counts the steps of both, so it advances by
    two in a turn with both; periods in steps are due in the turn that reaches them. `GANTrainer` is simpler,
    suits most trainings, and makes a round in one session call.

    Batch normalisation updates its statistics within the forward passes (`ema_update="internal"`), so the
    statistics of both networks change in each step.

    Args:
        config: the training; its model is a `GANModelDesc`.
        d_period: the period of the discriminator's steps.
        g_period: the period of the generator's steps. At least one of the two must be 1.

    Raises:
        ConfigError: neither period is 1, or the configuration does not suit this trainer.
        ModelError: see `GANTrainer`.
    """

    def __init__(self, config: TrainConfig, *, d_period: int = 1, g_period: int = 1) -> None:
        name = type(self).__name__
        self._d_period = at_least(name, "d_period", d_period)
        self._g_period = at_least(name, "g_period", g_period)
        if min(self._d_period, self._g_period) != 1:
            raise ConfigError(
                f"{name}(d_period={d_period}, g_period={g_period}): one of them must be 1; otherwise some "
                "turns would train nothing. Use 1 for the network that trains more often."
            )
        super().__init__(config)

    def _tower_function(self) -> Callable[..., Any]:
        build = as_objectives(self)

        def build_with_own_statistics(*inputs: tf.Tensor) -> Any:
            # Update ops, run with each network's steps, would need the forward pass of the other one.
            with argscope(BatchNorm, ema_update="internal"):
                return build(*inputs)

        return build_with_own_statistics

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors)

    def run_step(self) -> None:
        """Runs the steps of one turn."""
        assert self.builder is not None
        # Not by `global_step`, which skips multiples of a period.
        turn = (self.epoch_num - 1) * self.loop.steps_per_epoch + self.local_step
        if turn % self._d_period == 0:
            self.hooked_sess.run(self.builder.updates[DISCRIMINATOR])
        if turn % self._g_period == 0:
            self.hooked_sess.run(self.builder.updates[GENERATOR])
