"""The devices of the towers of one host."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeGuard

import tensorflow.compat.v1 as tf

from .._errors import ConfigError

__all__ = [
    "are_gpus",
    "check_devices",
    "check_session_has_towers",
    "choose_devices",
    "devices_of_towers",
    "get_num_gpu",
    "note_devices",
]

_log = logging.getLogger("towerpack_trainers")

# The graph collection with the devices of built towers, regardless of their builder.
_DEVICES = "towerpack_trainers/devices_of_towers"


def choose_devices(devices: int | Sequence[str] | None, gpus: int | Sequence[int] | None) -> list[str]:
    """Returns the devices of the towers, one each, for the arguments of a trainer.

    Args:
        devices: names such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices. Or the number of devices:
            GPUs if this host has any, else virtual CPU devices, and a warning is logged.
        gpus: the indices of GPUs, or their number; instead of `devices`.

    Returns:
        Names of devices. Without both arguments, all GPUs of this host; without a GPU, the CPU, and a
        warning is logged.

    Raises:
        ConfigError: both were given, or a device is invalid, does not exist, or is named twice.
    """
    if devices is not None and gpus is not None:
        raise ConfigError(f"Received both devices={devices!r} and gpus={gpus!r}; give only one of them.")
    if devices is not None:
        return check_devices(_first_devices(devices) if isinstance(devices, int) else devices)
    if gpus is not None:
        return check_devices(_gpu_names(gpus))
    present = get_num_gpu()
    if not present:
        _log.warning(
            "There is no GPU on this host, so one tower trains on the CPU. To try several towers on virtual "
            'CPU devices, name them: devices=["/cpu:0", "/cpu:1"].'
        )
        return ["/cpu:0"]
    return [f"/gpu:{index}" for index in range(present)]


def check_devices(devices: Sequence[str]) -> list[str]:
    """Checks that devices exist and are named once.

    Raises:
        ConfigError: a device does not exist or is named twice.
    """
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ConfigError(
            f'devices={devices!r}: expected a list such as ["/gpu:0", "/gpu:1"]; trainers also take a number.'
        )
    parsed = [_parse(device) for device in devices]
    if len(set(parsed)) != len(parsed):
        raise ConfigError(f"devices={list(devices)!r} names a device twice; one tower per device.")
    present = get_num_gpu()
    for kind, index in parsed:
        # Soft placement would silently train on the CPU instead.
        if kind == "GPU" and index >= present:
            raise ConfigError(
                f"devices={list(devices)!r} names GPU {index}, but this host has {present} GPUs."
            )
    return list(devices)


def note_devices(devices: Sequence[str]) -> None:
    """Records in the current graph that there are towers on these devices."""
    tf.get_default_graph().get_collection_ref(_DEVICES).extend(devices)


def devices_of_towers(graph: tf.Graph) -> list[str]:
    """Returns the devices of a graph's towers, if builders have placed them."""
    return list(graph.get_collection(_DEVICES))


def check_session_has_towers(sess: tf.Session) -> None:
    """Checks that a session has the devices of all towers: soft placement would silently use other ones.

    Raises:
        ConfigError: a device is missing.
    """
    wanted = devices_of_towers(sess.graph)
    present = {_parse(device.name) for device in sess.list_devices()} if wanted else set()
    missing = [device for device in wanted if _parse(device) not in present]
    if missing:
        raise ConfigError(
            f"The session lacks {', '.join(missing)}, the devices of towers; they would run elsewhere. "
            f"Use TrainConfig(session_config=default_session_config({wanted!r})), changed as needed."
        )


def are_gpus(devices: Sequence[str]) -> bool:
    """Returns whether all devices are GPUs."""
    return all(_parse(device)[0] == "GPU" for device in devices)


def get_num_gpu() -> int:
    """Returns the number of GPUs that TensorFlow finds on this host."""
    return len(tf.config.list_physical_devices("GPU"))


def _first_devices(count: int) -> list[str]:
    if not _is_count(count) or count == 0:
        raise ConfigError(f"devices={count!r}: expected a list of devices, or their number, at least 1.")
    kind = "gpu" if get_num_gpu() else "cpu"
    if kind == "cpu" and count > 1:
        _log.warning(
            "There is no GPU on this host, so devices=%d trains on virtual CPU devices, which share the "
            "processor.",
            count,
        )
    return [f"/{kind}:{index}" for index in range(count)]


def _gpu_names(gpus: int | Sequence[int]) -> list[str]:
    numbers = list(range(gpus)) if _is_count(gpus) else gpus
    if (
        not isinstance(numbers, (list, tuple))
        or not numbers
        or not all(_is_count(number) for number in numbers)
    ):
        raise ConfigError(f"gpus={gpus!r}: expected the indices of GPUs, such as [0, 1], or their number.")
    return [f"/gpu:{number}" for number in numbers]


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse(device: str) -> tuple[str, int]:
    try:
        spec = tf.DeviceSpec.from_string(device)
        return spec.device_type.upper(), spec.device_index or 0
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f'devices=[...] received {device!r}; expected strings such as "/gpu:0" or "/cpu:1".'
        ) from None
