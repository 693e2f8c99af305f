"""Trainers of generative adversarial networks. One step is a round of both networks."""

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
                "source without feeding; a DataFlow given as dataflow= gets one."
            )
        rounds = Rounds(self.builder, self._d_steps, self._g_steps, gan_model(self).generator_scope)
        self._compose_step(self._d_steps, rounds.complete)
        return rounds.train_op


@final
class GANTrainer(_RoundTrainer):
    """Trains a generator and a discriminator on one device, in rounds. One training step is one round.

    In a round, the discriminator makes `d_steps` steps, each with a new batch; then the generator makes
    `g_steps` steps, with the discriminator's new weights, the last batch of the discriminator, and new
    noise. If both numbers are 1, both steps use one forward pass, as in Tensorpack: their gradients use the
    weights from before the round.

    A round is one session call, except when a callback fetches a tensor: then the discriminator's earlier
    steps are a separate call. Callbacks see the discriminator's last step. The batch statistics of each
    network are updated in its own steps.

    Args:
        config: the training; its model is a `GANModelDesc`. By default, an epoch is one pass of the data,
            `len(flow) // d_steps` rounds. `TrainConfig(optimizer=…)` replaces both optimizers.
        d_steps: the number of discriminator steps in a round.
        g_steps: the number of generator steps in a round.
        processes: the strategy for training together with other processes, such as
            `distributed.SynchronousProcesses`. Each of the discriminator's steps is then a session call.

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
    """Trains a generator and a discriminator synchronously on several devices, in rounds; see `GANTrainer`.

    Every tower takes its own batches from the input, `d_steps` in a round; gradients are averaged.

    Args:
        config: as for `GANTrainer`.
        devices: devices such as "/gpu:0", or their number; see `SyncMultiGPUTrainer`.
        gpus: the indices of GPUs, or their number, instead of `devices`. Without both, all GPUs of this host.
        d_steps: the number of discriminator steps in a round.
        g_steps: the number of generator steps in a round.

    Raises:
        ConfigError, ModelError: see `GANTrainer`; or a device does not exist.
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

    All processes must make their exchanges in the same order, and one op trains both networks.
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
