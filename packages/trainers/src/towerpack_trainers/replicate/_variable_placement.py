"""The devices of variables that towers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import tensorflow.compat.v1 as tf

from .._errors import ConfigError

__all__ = ["LeastLoaded", "SharedVariables"]

_VARIABLE_OPS = {"VarHandleOp", "VariableV2", "Variable"}


@final
class LeastLoaded:
    """Chooses the device with the fewest bytes so far; the first one if there are several.

    Args:
        devices: names of devices.

    Raises:
        ConfigError: the list is empty.

    Example:
        >>> from towerpack_trainers.replicate import LeastLoaded
        >>> place = LeastLoaded(["/gpu:0", "/gpu:1"])
        >>> [place(size) for size in (100, 30, 40, 50)]
        ['/gpu:0', '/gpu:1', '/gpu:1', '/gpu:1']
    """

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("LeastLoaded received no devices; expected at least one.")
        self.load = dict.fromkeys(devices, 0)

    def __call__(self, size: int) -> str:
        """Returns the device for a variable of `size` bytes, and adds them to its total."""
        device = min(self.load, key=self.load.__getitem__)
        # Empty variables count as well, so that many of them do not all go to one device.
        self.load[device] += max(size, 1)
        return device


@final
class SharedVariables:
    """Places variables on the given devices, and all other ops on the tower's own device.

    Args:
        devices: the devices of variables. With several, each variable goes to the one with the fewest bytes.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self._place = LeastLoaded(devices)

    def beside(self, device: str) -> Callable[[tf.Operation], str]:
        """Returns the device function, for `tf.device`, of the tower on `device`."""

        def choose(op: tf.Operation) -> str:
            if op.device:  # the model's own choice
                return str(op.device)
            return self._place(_bytes(op)) if op.type in _VARIABLE_OPS else device

        return choose


def _bytes(variable_op: tf.Operation) -> int:
    elements = tf.TensorShape(variable_op.get_attr("shape")).num_elements() or 0
    return elements * int(tf.as_dtype(variable_op.get_attr("dtype")).size)
