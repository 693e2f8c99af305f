"""Conversion of arrays to tensors that share their memory, and copies of tensors to a device."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import torch

from ..._errors import ComponentError
from .._nested import mapped

__all__ = ["DeviceCopies", "tensor_of"]

# Types of the package ml_dtypes, which NumPy knows by name only.
_BY_NAME = {
    "bfloat16": (np.uint16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
}
_TEXT = "SUO"


def tensor_of(value: Any, path: tuple[Any, ...]) -> Any:
    """Returns an array or a NumPy scalar as a tensor; text, objects and other values unchanged.

    The tensor shares the memory of a writable array, and keeps that memory from being used again. PyTorch has
    no read-only tensors, so a read-only array is copied, and so are arrays with another byte order or
    negative strides.

    Raises:
        ComponentError: PyTorch has no such dtype.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    dtype = value.dtype
    if dtype.kind in _TEXT:
        return value
    if dtype.name in _BY_NAME:
        integer, wanted = _BY_NAME[dtype.name]
        return tensor_of(value.view(integer), path).view(wanted)
    if isinstance(value, np.ma.MaskedArray):
        raise _refused(value, path, "a masked array; use x.filled(0) in a MapDataComponent below")
    if not dtype.isnative:
        value = value.astype(dtype.newbyteorder("="))
    elif not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()
    try:
        return torch.from_numpy(value)
    except TypeError:
        raise _refused(
            value,
            path,
            f"an array of {dtype}, and PyTorch has no such dtype; convert it to numbers in a "
            "MapDataComponent below",
        ) from None


def _refused(value: Any, path: tuple[Any, ...], problem: str) -> ComponentError:
    return ComponentError(f"component {'.'.join(map(str, path)) or 'of the datapoint'} is {problem}")


@final
class _Copied(NamedTuple):
    """A batch, and the event after its last copy."""

    batch: Any
    done: torch.cuda.Event | None


@final
class DeviceCopies:
    """Copies batches ahead of the consumer.

    With a CUDA device, a tensor is copied into pinned memory and from there to the device, on a separate
    stream: the copy runs while the device computes. PyTorch's allocator of pinned memory reuses a block only
    after the copy from it.

    Args:
        device: the device; `None` to leave the tensors on the CPU.
        pin: whether to copy through pinned memory, or into it.
    """

    def __init__(self, device: torch.device | None, pin: bool) -> None:
        """Creates the stream at the first batch."""
        self._device = device
        self._pin = pin
        self._stream: torch.cuda.Stream | None = None

    def start(self, batch: Any) -> _Copied:
        """Starts to copy a batch; called in the thread that reads ahead."""
        if self._device is None or self._device.type != "cuda":
            return _Copied(mapped(batch, self._simple), None)
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = mapped(batch, self._on_stream)
            done = torch.cuda.Event()
            done.record(self._stream)
        return _Copied(copied, done)

    def finish(self, copied: _Copied) -> Any:
        """Makes the consumer's stream wait for the copies of a batch; called in the consumer's thread."""
        if copied.done is None:
            return copied.batch
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(copied.done)

        def used(value: Any, _: tuple[Any, ...]) -> Any:
            if isinstance(value, torch.Tensor):
                value.record_stream(stream)  # its memory belongs to the stream of the copies
            return value

        return mapped(copied.batch, used)

    def _simple(self, value: Any, _: tuple[Any, ...]) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if self._device is not None:
            return value.to(self._device)
        return value.pin_memory() if self._pin else value

    def _on_stream(self, value: Any, _: tuple[Any, ...]) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return (value.pin_memory() if self._pin else value).to(self._device, non_blocking=True)
