"""Synchronous training on several devices of one host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import final

import tensorflow.compat.v1 as tf

from .._config import TrainConfig
from .._errors import ConfigError
from .._single_cost import SingleCostTrainer, compute_gradients
from .._tower import Tower
from ._gradients import average_gradients

__all__ = ["SyncMultiGPUTrainer"]

_log = logging.getLogger("towerpack_trainers")

_VARIABLE_OPS = {"VarHandleOp", "VariableV2", "Variable"}


@final
class SyncMultiGPUTrainer(SingleCostTrainer):
    """Trains one replica per device, in step: shared variables, averaged gradients, one update.

    Every tower takes a datapoint of its own from the input; nothing is split. So the total batch is the
    flow's batch times the number of devices, and `steps_per_epoch` is not divided.

    Args:
        config: the training; its input must be one that several towers can take from.
        devices: devices such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, for tests.
            None: all GPUs of this host.

    Raises:
        ConfigError: there is no GPU and no devices were named, or one was named twice.
    """

    def __init__(self, config: TrainConfig, devices: Sequence[str] | None = None) -> None:
        self.devices = _all_gpus() if devices is None else _check_devices(devices)
        super().__init__(config)
        _log.info(
            "%d towers, each with a batch of its own: one step trains on %d datapoints.",
            len(self.devices),
            len(self.devices),
        )

    def _build_train_op(self) -> tf.Operation:
        optimizer = self.config.make_optimizer()
        gradients = [
            compute_gradients(tower, optimizer) for tower in map(self._build_tower, range(len(self.devices)))
        ]
        with tf.device("/cpu:0"):
            average = average_gradients(gradients)
        return optimizer.apply_gradients(average, name="train_op")

    def _build_tower(self, index: int) -> Tower:
        assert self.source is not None
        context = self.training_context(index, len(self.devices))
        # One take after the other, so that each run gives each tower the same datapoints.
        earlier = [tensor for tower in self.tower_func.training for tensor in tower.inputs.values()]
        with tf.control_dependencies(earlier):
            inputs = self.source.get_input_tensors()
        with tf.device(_shared_variables_on("/cpu:0", self.devices[index])):
            return self.tower_func.build(context, inputs)


def _shared_variables_on(variable_device: str, device: str) -> Callable[[tf.Operation], str]:
    def choose(op: tf.Operation) -> str:
        if op.device:  # the model's own choice
            return str(op.device)
        return variable_device if op.type in _VARIABLE_OPS else device

    return choose


def _check_devices(devices: Sequence[str]) -> list[str]:
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ConfigError(f'devices={devices!r}: expected a list such as ["/gpu:0", "/gpu:1"].')
    parsed = [_parse_device(device) for device in devices]
    if len(set(parsed)) != len(parsed):
        raise ConfigError(f"devices={list(devices)!r} names a device twice; one tower per device.")
    present = _count_gpus()
    for kind, index in parsed:
        # Soft placement would train on the CPU instead, and say nothing.
        if kind == "GPU" and index >= present:
            raise ConfigError(
                f"devices={list(devices)!r} names GPU {index}, but this host has {present} GPUs."
            )
    return list(devices)


def _parse_device(device: str) -> tuple[str, int]:
    try:
        spec = tf.DeviceSpec.from_string(device)
        return spec.device_type.upper(), spec.device_index or 0
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f'devices=[...] received {device!r}; expected strings such as "/gpu:0" or "/cpu:1".'
        ) from None


def _count_gpus() -> int:
    return len(tf.config.list_physical_devices("GPU"))


def _all_gpus() -> list[str]:
    gpus = _count_gpus()
    if not gpus:
        raise ConfigError(
            "SyncMultiGPUTrainer found no GPU on this host. Use SimpleTrainer, or name devices, "
            'such as devices=["/cpu:0", "/cpu:1"] to try two towers on the CPU.'
        )
    return [f"/gpu:{index}" for index in range(gpus)]
