"""`DataLoader`: the batches of a flow as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch

from ... import _argument_checks as arguments
from ..._errors import ArgumentError
from .._base_loader import BaseLoader, LoaderOptions
from .._nested import PlainArrays, mapped, refused
from .._source_of import batched_source
from ._torch_dataset import rank_and_world_size

__all__ = ["DataLoader", "DeviceCopies", "tensor_of"]

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
    if dtype.isbuiltin == 2 and dtype.name in _BY_NAME:  # the name takes a microsecond
        integer, wanted = _BY_NAME[dtype.name]
        return tensor_of(value.view(integer), path).view(wanted)
    if isinstance(value, np.ma.MaskedArray):
        raise refused(path, "a masked array; use x.filled(0) in a MapDataComponent below")
    if not dtype.isnative:
        value = value.astype(dtype.newbyteorder("="))
    elif not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()
    try:
        return torch.from_numpy(value)
    except TypeError:
        raise refused(
            path,
            f"an array of {dtype}, and PyTorch has no such dtype; convert it to numbers in a "
            "MapDataComponent below",
        ) from None


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


@final
class DataLoader(BaseLoader):
    """Yields the batches of a flow as tensors, in place of `torch.utils.data.DataLoader`.

    An epoch has the same batches in the same order for any number of workers. With several ranks, each rank
    takes every `world_size`-th batch, so that each batch comes once per epoch. Each `for` loop over the
    loader is the next epoch. Workers start with the first one, stay for all, and need no main guard.

    **Tensors.** Arrays and NumPy scalars become tensors at any depth of lists, tuples, named tuples and
    dicts; text, objects and Python's numbers stay as they are. On the CPU a tensor shares the memory that the
    workers wrote: that memory is not used again while the tensor or a view of it exists. A consumer may keep
    `prefetch_bytes` of such tensors; further ones are copies. With a CUDA `device`, a thread copies batches
    through pinned memory ahead of the consumer, on a separate stream.

    **Data.** `flow` is a flow, a list, or a map-style or iterable data set of PyTorch, Hugging Face, Grain or
    WebDataset. A flow yields batches; for the others set `batch_size`. Random transforms in a map-style data
    set repeat for each seed, epoch and index: the global generators of Python, NumPy and PyTorch are seeded
    before each item (see `interop.transforms.seeded`).

    **States.** `state_dict()` is the position of the next batch not yet taken, a few integers. It fits any
    number of workers and ranks, so one rank can save it for all; resuming continues the epoch with the same
    batches. It is also a state of the flow itself.

    Args:
        flow: the data.
        batch_size: datapoints in a batch, stacked by the loader: any nesting, Python's integers as int64, its
            floats as float32. `None` if each datapoint of the flow is a batch.
        shuffle: whether each epoch has another order; a flow determines its own.
        num_workers: number of processes that make batches; 0 makes them in this process; "auto" measures.
        collate: makes a batch from a list of datapoints, such as `interop.collate.Pad()`.
        drop_last: whether a smaller last batch is dropped.
        device: the device of the tensors; by default they stay on the CPU.
        pin_memory: whether tensors on the CPU are pinned, or copied to `device` through pinned memory; by
            default true for a CUDA device.
        rank: rank of this process; by default from `torch.distributed`, or from `torchrun` before that is
            initialised.
        world_size: number of processes.
        even: treatment of the last batches if they do not suffice for all ranks: "error" raises an error,
            "drop" leaves them out, "repeat" fills the round with the first batches of the epoch.
        seed: the seed of the data, the same on all ranks; by default the flow's own, or 0.
        timeout: seconds that a batch may take in a worker; a slower one is a `DatapointTimeoutError`.
        start_method: "spawn" (the default), "fork", or "thread" (the default on free-threaded Python).
        worker_init_fn: called in each worker with its number.
        prefetch_bytes: limit of the bytes made ahead, and of those that the consumer keeps without a copy.

    Raises:
        ArgumentError: an argument has an invalid value, or contradicts another one.
        BatchError: datapoints cannot be stacked; raised while iterating.
        ComponentError: a tensor of a worker is not on the CPU, or PyTorch lacks the dtype of an array; raised
            while iterating.

    Warns:
        UserWarning: `pin_memory=True` without a CUDA device; a pass had more or fewer batches than `len()`.

    Example:
        >>> loader = DataLoader([[1, 0.5], [2, 1.5], [3, 2.5]], batch_size=2)
        >>> for numbers, halves in loader:
        ...     print(numbers, halves)
        tensor([1, 2]) tensor([0.5000, 1.5000])
        tensor([3]) tensor([2.5000])
    """

    def __init__(
        self,
        flow: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        num_workers: int | str = 0,
        collate: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        device: Any = None,
        pin_memory: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: str = "error",
        seed: int | None = None,
        timeout: float | None = None,
        start_method: str | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        prefetch_bytes: int = 2**28,
    ) -> None:
        """Checks the arguments; starts nothing."""
        shuffle, drop_last = arguments.flag("shuffle", shuffle), arguments.flag("drop_last", drop_last)
        batches = batched_source(flow, batch_size, shuffle, drop_last, collate)
        place = _checked_device(device)
        pin = _checked_pin(pin_memory, place)
        self._copies = DeviceCopies(place, pin) if place is not None or pin else None
        self._reads_ahead = self._copies is not None
        options = LoaderOptions(
            num_workers, rank, world_size, even, seed, timeout, start_method, worker_init_fn, prefetch_bytes
        )
        super().__init__(PlainArrays(batches), options)

    def _detected_ranks(self) -> tuple[int, int]:
        return rank_and_world_size(environment=True)

    def _converted(self, datapoint: Any) -> Any:
        batch = mapped(datapoint, tensor_of)
        return batch if self._copies is None else self._copies.start(batch)

    def _delivered(self, batch: Any) -> Any:
        return batch if self._copies is None else self._copies.finish(batch)


def _checked_device(device: Any) -> torch.device | None:
    if device is None:
        return None
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f'device is one of PyTorch, such as "cuda:0"; received {device!r}') from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"device={device!r}: this process has no CUDA device; use device=None")
    return None if place.type == "cpu" else place


def _checked_pin(pin_memory: bool | None, device: torch.device | None) -> bool:
    if pin_memory is None:
        return device is not None and device.type == "cuda"
    if arguments.flag("pin_memory", pin_memory) and not torch.cuda.is_available():
        warnings.warn(
            "pin_memory=True has no effect: this process has no CUDA device", UserWarning, stacklevel=3
        )
        return False
    return bool(pin_memory)
