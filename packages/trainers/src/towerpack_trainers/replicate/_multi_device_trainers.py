"""Trainers of models with one cost on several devices of this host."""

from __future__ import annotations

import abc
import logging
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_inputsource import InputSource, input_for

from .._errors import ConfigError
from .._single_cost import SingleCostTrainer
from ..config._train_config import TrainConfig
from ..towers._devices import are_gpus, choose_devices
from ._allreduce import choose_mode
from ._async_builder import AsyncMultiGPUBuilder
from ._data_parallel_builder import DataParallelBuilder
from ._parameter_server_builder import SyncMultiGPUParameterServerBuilder
from ._replicated_builder import SyncMultiGPUReplicatedBuilder

__all__ = [
    "AsyncMultiGPUTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
]

_log = logging.getLogger("towerpack_trainers")


class _MultiDeviceTrainer(SingleCostTrainer):
    """Trains one replica per device, as its builder has it.

    Every tower takes a datapoint of its own from the input; nothing is split. So the total batch is the
    flow's batch times the number of devices, and `steps_per_epoch` is not divided.
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
    ) -> None:
        self.devices = choose_devices(devices, gpus)
        super().__init__(config)
        count = len(self.devices)
        if count > 1:
            _log.info(
                "%d towers, each with a batch of its own: one step trains on %d datapoints.", count, count
            )

    @abc.abstractmethod
    def _make_builder(self) -> DataParallelBuilder:
        """Makes the builder for `devices`, with the trainer's seed."""

    def _make_source(self, dataflow: Any) -> InputSource:
        return input_for(dataflow, on_gpu=are_gpus(self.devices))

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        if len(self.devices) > 1 and not self.source.feed_free:
            raise ConfigError(
                f"{type(self.source).__name__} feeds one datapoint with each run, which all of the "
                f"{len(self.devices)} towers would train on. Use QueueInput or another source that needs no "
                "feeding; a DataFlow given as dataflow= gets one."
            )
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)

    def _own_callbacks(self) -> list[Callback]:
        return [*super()._own_callbacks(), *self.builder.callbacks()]


@final
class SyncMultiGPUTrainer(_MultiDeviceTrainer):
    """Trains on several devices in step, in the way that suits them best.

    Several GPUs get a copy of the variables each, as by `SyncMultiGPUTrainerReplicated`; other devices share
    them, as by `SyncMultiGPUTrainerParameterServer`. The numbers are the same.

    Args:
        config: the training; its input must be one that several towers can take from.
        devices: devices such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, for tests.
        gpus: numbers of GPUs, or how many to use, instead of `devices`. With neither, all GPUs of this host;
            where there is none, one tower trains on the CPU, and a warning is logged.

    Raises:
        ConfigError: a device is no device, is not there, or is named twice; or the input cannot serve several
            towers.

    Example:
        ```python
        SyncMultiGPUTrainer(config, gpus=[0, 1]).train()
        ```
    """

    def _make_builder(self) -> DataParallelBuilder:
        if are_gpus(self.devices) and len(self.devices) > 1:
            return SyncMultiGPUReplicatedBuilder(self.devices, seed=self.seed)
        return SyncMultiGPUParameterServerBuilder(self.devices, seed=self.seed)


@final
class SyncMultiGPUTrainerParameterServer(_MultiDeviceTrainer):
    """Trains on several devices in step: shared variables, averaged gradients, one update.

    Args:
        config: the training; its input must be one that several towers can take from.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: numbers of GPUs, or how many to use, instead of `devices`.
        ps_device: where variables live: "cpu", on the CPU; "gpu", each on the tower's device that has the
            fewest bytes of them. None: "gpu" for up to two GPUs, else "cpu".

    Raises:
        ConfigError: as `SyncMultiGPUTrainer`; or `ps_device` is something else.
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        ps_device: str | None = None,
    ) -> None:
        if ps_device not in {None, "cpu", "gpu"}:
            raise ConfigError(f'ps_device={ps_device!r}: expected "cpu", "gpu" or None.')
        self._ps_device = ps_device
        super().__init__(config, devices, gpus)

    def _make_builder(self) -> DataParallelBuilder:
        few_gpus = are_gpus(self.devices) and len(self.devices) <= 2
        spread = few_gpus if self._ps_device is None else self._ps_device == "gpu"
        places = self.devices if spread else ["/cpu:0"]
        return SyncMultiGPUParameterServerBuilder(self.devices, places, seed=self.seed)


@final
class SyncMultiGPUTrainerReplicated(_MultiDeviceTrainer):
    """Trains on several devices in step: a copy of the variables on each, averaged gradients, equal updates.

    The copies are set to the first tower's values before training. Those variables that gradients do not
    train, such as moving averages, are set so again after each epoch and before each checkpoint. Only the
    first tower's are saved, under the names they have under any other trainer.

    Args:
        config: the training; its input must be one that several towers can take from.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: numbers of GPUs, or how many to use, instead of `devices`.
        mode: how gradients are averaged: "nccl", between GPUs; "hierarchical", on the devices, within two
            groups and then between them; "cpu", on the CPU. None: "nccl" between GPUs, else "cpu".

    Raises:
        ConfigError: as `SyncMultiGPUTrainer`; or there is no such mode, or the devices cannot do it.
        TowerRuleError: the towers do not make the same variables.
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        mode: str | None = None,
    ) -> None:
        chosen = choose_devices(devices, gpus)
        self._mode = choose_mode(mode, chosen)
        super().__init__(config, chosen)

    def _make_builder(self) -> DataParallelBuilder:
        return SyncMultiGPUReplicatedBuilder(self.devices, self._mode, seed=self.seed)


@final
class AsyncMultiGPUTrainer(_MultiDeviceTrainer):
    """Trains on several devices out of step: each applies its gradients to shared variables when it has them.

    One step makes as many updates as there are towers. `AsyncMultiGPUBuilder` says what that means.

    Args:
        config: the training; its input must be one that several towers can take from.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: numbers of GPUs, or how many to use, instead of `devices`.
        scale_gradient: divide gradients by the number of towers.

    Raises:
        ConfigError: as `SyncMultiGPUTrainer`.
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        scale_gradient: bool = True,
    ) -> None:
        self._scale_gradient = scale_gradient
        super().__init__(config, devices, gpus)

    def _make_builder(self) -> DataParallelBuilder:
        return AsyncMultiGPUBuilder(self.devices, scale_gradient=self._scale_gradient, seed=self.seed)
