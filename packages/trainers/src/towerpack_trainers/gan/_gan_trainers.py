"""Trainers of generative adversarial networks, whose step is a round of both networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import at_least
from .._errors import ConfigError
from ..base import BuilderTrainer
from ..config._train_config import TrainConfig
from ..replicate import choose_builder
from ..session import ProcessStrategy
from ..towers._builder import Builder
from ..towers._cost_gradients import Pairs
from ..towers._devices import choose_devices
from ..towers._single_device_builder import SingleDeviceBuilder
from ._gan_objectives import as_objectives, gan_model
from ._rounds import Rounds

__all__ = ["GANTrainer", "MultiGPUGANTrainer"]


class _RoundTrainer(BuilderTrainer):
    """Trains both networks in each step, which is one round."""

    def __init__(
        self, config: TrainConfig, d_steps: int, g_steps: int, processes: ProcessStrategy | None = None
    ) -> None:
        name = type(self).__name__
        self._d_steps, self._g_steps = at_least(name, "d_steps", d_steps), at_least(name, "g_steps", g_steps)
        super().__init__(config, processes=processes)

    def _tower_function(self) -> Callable[..., Any]:
        return as_objectives(self)

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        self.builder = self._make_builder()
        joint = self.builder.build(self.tower_func, self.source.get_input_tensors)
        if self._d_steps == self._g_steps == 1:
            return joint
        if not self.source.feed_free:
            raise ConfigError(
                f"{type(self).__name__}(d_steps={self._d_steps}, g_steps={self._g_steps}) takes several "
                f"batches in a step, but {type(self.source).__name__} feeds one. Use QueueInput or another "
                "source that needs no feeding; a DataFlow given as dataflow= gets one."
            )
        rounds = Rounds(self.builder, self._d_steps, self._g_steps, gan_model(self).generator_scope)
        self._train_op.compose(self._d_steps, rounds.complete)
        return rounds.train_op


@final
class GANTrainer(_RoundTrainer):
    """Trains a generator and a discriminator on one device, in rounds; a step of the training is a round.

    In a round the discriminator makes `d_steps` steps, each with a batch of its own, and then the generator
    `g_steps` steps, with the discriminator's new weights, the batch that it took last, and new noise. If both
    numbers are 1, both steps are made from one forward pass, as in Tensorpack: their gradients are those of
    the weights before the round.

    A round is one session call, but at steps at which a callback fetches something: then the discriminator's
    earlier steps are a call of their own. Callbacks see the discriminator's last step. Each network's batch
    statistics move with its own steps.

    Args:
        config: the training; its model is a `GANModelDesc`. By default, an epoch is one pass of the data,
            `len(flow) // d_steps` rounds. `TrainConfig(optimizer=…)` replaces both optimizers.
        d_steps: steps of the discriminator in a round.
        g_steps: steps of the generator in a round.
        processes: how this process trains together with others, such as `distributed.SynchronousProcesses`.
            Each of the discriminator's steps is then a session call.

    Raises:
        ConfigError: the configuration does not suit this trainer.
        ModelError: a variable is in neither network's scope, or in both; or the costs are not scalars.

    Example:
        ```python
        GANTrainer(TrainConfig(model=Digits(), dataflow=flow, max_epoch=50), d_steps=5).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        d_steps: int = 1,
        g_steps: int = 1,
        *,
        processes: ProcessStrategy | None = None,
    ) -> None:
        super().__init__(config, d_steps, g_steps, processes)

    def _make_builder(self) -> Builder:
        exchange = self.processes.gradient_exchange
        if exchange is not None and self._d_steps == self._g_steps == 1:
            exchange = _InOrder(exchange)
        return SingleDeviceBuilder(self.processes.local_seed(self.seed), exchange)


@final
class MultiGPUGANTrainer(_RoundTrainer):
    """Trains a generator and a discriminator on several devices in step, in rounds as `GANTrainer` does.

    Every tower takes batches of its own from the input, `d_steps` in a round; gradients are averaged.

    Args:
        config: as for `GANTrainer`.
        devices: devices such as "/gpu:0", or how many; see `SyncMultiGPUTrainer`.
        gpus: numbers of GPUs, or how many to use, instead of `devices`. With neither, all GPUs of this host.
        d_steps: steps of the discriminator in a round.
        g_steps: steps of the generator in a round.

    Raises:
        ConfigError, ModelError: as `GANTrainer`; or a device is not there.
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        *,
        d_steps: int = 1,
        g_steps: int = 1,
    ) -> None:
        self.devices = choose_devices(devices, gpus)
        super().__init__(config, d_steps, g_steps)

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed)


@final
class _InOrder:
    """Exchanges gradients with other processes, one objective after the other.

    All processes must make their exchanges in one order, and one op trains both networks.
    """

    def __init__(self, exchange: Any) -> None:
        self._exchange = exchange
        self.sum = getattr(exchange, "sum", None)
        self._before: list[tf.Operation] = []

    def __call__(self, pairs: Pairs) -> Pairs:
        with tf.control_dependencies(self._before):
            averaged: Pairs = self._exchange(pairs)
        self._before = [gradient.op for gradient, _ in averaged]
        return averaged
