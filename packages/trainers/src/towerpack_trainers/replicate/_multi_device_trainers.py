"""Trainers of models with one cost on several devices of this host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from .._errors import ConfigError
from ..base._tower_trainer import SingleCostTrainer
from ..config import TrainConfig
from ..towers._devices import are_gpus, choose_devices
from ._allreduce import choose_mode
from ._data_parallel_builders import (
    AsyncMultiGPUBuilder,
    DataParallelBuilder,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
)

__all__ = [
    "AsyncMultiGPUTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "choose_builder",
]


@final
class SyncMultiGPUTrainer(SingleCostTrainer):
    """Trains synchronously on several devices, in the mode that suits them best.

    Every tower takes its own datapoint from the input; no datapoint is split. So the total batch is the
    flow's batch times the number of devices, and `steps_per_epoch` is not divided.

    GPUs each get a copy of the variables, as with `SyncMultiGPUTrainerReplicated`; other devices share them,
    as with `SyncMultiGPUTrainerParameterServer`. The results are the same.

    Args:
        config: the training; several towers must be able to take from its input. None: call `setup_graph`.
        devices: devices such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, for tests. A number is
            the number of devices: GPUs if this host has any, else virtual CPU devices, with a warning.
        gpus: the indices of GPUs, or their number, instead of `devices`. Without both, all GPUs of this host;
            without a GPU, one tower trains on the CPU, and a warning is logged.

    Raises:
        ConfigError: a device is invalid, does not exist, or is named twice; or the input cannot serve several
            towers.

    Example:
        ```python
        SyncMultiGPUTrainer(config, gpus=[0, 1]).train()

        trainer = SyncMultiGPUTrainer(devices=2)
        trainer.setup_graph(signature, flow, cost_fn, optimizer_fn)
        trainer.train(callbacks=[ModelSaver()], max_epoch=10)
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
    ) -> None:
        self.devices = choose_devices(devices, gpus)
        super().__init__(config)

    def _make_builder(self) -> DataParallelBuilder:
        return choose_builder(self.devices, self.seed)


def choose_builder(devices: Sequence[str], seed: int | None) -> DataParallelBuilder:
    """Returns the builder of synchronous towers that suits the devices best.

    Args:
        devices: the device of each tower.
        seed: see `DataParallelBuilder`.
    """
    if are_gpus(devices) and len(devices) > 1:
        return SyncMultiGPUReplicatedBuilder(devices, seed=seed)
    return SyncMultiGPUParameterServerBuilder(devices, seed=seed)


@final
class SyncMultiGPUTrainerParameterServer(SingleCostTrainer):
    """Trains synchronously on several devices: shared variables, averaged gradients, one update.

    Args:
        config: the training, or None; see `SyncMultiGPUTrainer`.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: the indices of GPUs, or their number, instead of `devices`.
        ps_device: the device of the variables: "cpu", the CPU; "gpu", for each variable the tower's device
            with the fewest bytes of variables. None: "gpu" for up to two GPUs, else "cpu".

    Raises:
        ConfigError: see `SyncMultiGPUTrainer`; or `ps_device` has another value.

    Example:
        ```python
        SyncMultiGPUTrainerParameterServer(config, gpus=4, ps_device="cpu").train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        ps_device: str | None = None,
    ) -> None:
        if ps_device not in {None, "cpu", "gpu"}:
            raise ConfigError(f'ps_device={ps_device!r}: expected "cpu", "gpu" or None.')
        self._ps_device = ps_device
        self.devices = choose_devices(devices, gpus)
        super().__init__(config)

    def _make_builder(self) -> DataParallelBuilder:
        few_gpus = are_gpus(self.devices) and len(self.devices) <= 2
        spread = few_gpus if self._ps_device is None else self._ps_device == "gpu"
        places = self.devices if spread else ["/cpu:0"]
        return SyncMultiGPUParameterServerBuilder(self.devices, places, seed=self.seed)


@final
class SyncMultiGPUTrainerReplicated(SingleCostTrainer):
    """Trains synchronously on several devices: copied variables, averaged gradients, equal updates.

    The copies are set to the first tower's values before training. Variables without a gradient, such as
    moving averages, are also copied after each epoch and before each checkpoint. Only the first tower's
    variables are saved, under the same names as with any other trainer.

    Args:
        config: the training, or None; see `SyncMultiGPUTrainer`.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: the indices of GPUs, or their number, instead of `devices`.
        mode: the averaging mode: "nccl", between GPUs; "hierarchical", on the devices, within two
            groups and then between them; "cpu", on the CPU. None: "nccl" between GPUs, else "cpu".

    Raises:
        ConfigError: see `SyncMultiGPUTrainer`; or there is no such mode, or the devices do not support it.
        TowerRuleError: the towers do not make the same variables.

    Example:
        ```python
        SyncMultiGPUTrainerReplicated(config, gpus=4, mode="nccl").train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        mode: str | None = None,
    ) -> None:
        self.devices = choose_devices(devices, gpus)
        self._mode = choose_mode(mode, self.devices)
        super().__init__(config)

    def _make_builder(self) -> DataParallelBuilder:
        return SyncMultiGPUReplicatedBuilder(self.devices, self._mode, seed=self.seed)


@final
class AsyncMultiGPUTrainer(SingleCostTrainer):
    """Trains asynchronously on several devices: each applies its gradients to shared variables immediately.

    One step makes one update for each tower. See `AsyncMultiGPUBuilder` for the consequences.

    Args:
        config: the training, or None; see `SyncMultiGPUTrainer`.
        devices: devices such as "/gpu:0" or "/cpu:1"; see `SyncMultiGPUTrainer`.
        gpus: the indices of GPUs, or their number, instead of `devices`.
        scale_gradient: divide gradients by the number of towers.

    Raises:
        ConfigError: see `SyncMultiGPUTrainer`.

    Example:
        ```python
        AsyncMultiGPUTrainer(config, gpus=[0, 1]).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        scale_gradient: bool = True,
    ) -> None:
        self._scale_gradient = scale_gradient
        self.devices = choose_devices(devices, gpus)
        super().__init__(config)

    def _make_builder(self) -> DataParallelBuilder:
        return AsyncMultiGPUBuilder(self.devices, scale_gradient=self._scale_gradient, seed=self.seed)
