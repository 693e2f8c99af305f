"""Flows for JAX, which must be installed.

* `DataLoader`: the batches of a flow as JAX arrays, placed by a sharding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError
from ._base_loader import BaseLoader, LoaderOptions
from ._nested import PlainArrays, mapped, refused
from ._source_of import batched_source

try:
    import jax
except ImportError as error:
    raise ImportError("towerpack_dataflow.interop.jax needs JAX: pip install jax") from error

__all__ = ["DataLoader"]


@final
class DataLoader(BaseLoader):
    """Yields the batches of a flow as JAX arrays.

    An epoch has the same batches in the same order for any number of workers. With several processes, each
    process takes every `world_size`-th batch, so that each batch comes once per epoch. With a sharding over
    devices of several processes, the batches of one step are the parts of one global array.

    Arrays and NumPy scalars become JAX arrays at any depth of lists, tuples, named tuples and dicts; text,
    objects and Python's numbers stay as they are. On the CPU a JAX array shares the memory that the workers
    wrote, if it is aligned to 64 bytes, as large arrays are; that memory is not used again while the JAX
    array exists. For other devices or a sharding, a thread copies batches ahead of the consumer. Without
    `jax_enable_x64`, numbers of 64 bits become numbers of 32 bits, and an integer that would change is an
    error.

    Data, states, workers and seeds are as in `interop.torch.DataLoader`.

    Args:
        flow: the data.
        batch_size: datapoints in a batch of this process, stacked by the loader; `None` if each datapoint of
            the flow is a batch.
        shuffle: whether each epoch has another order; a flow determines its own.
        num_workers: number of processes that make batches; 0 makes them in this process; "auto" measures.
        collate: makes a batch from a list of datapoints, such as `interop.collate.pad`.
        drop_last: whether a smaller last batch is dropped.
        sharding: the `jax.sharding.Sharding` of each array; by default the default device.
        rank: number of this process; `jax.process_index()` by default.
        world_size: number of processes; `jax.process_count()` by default.
        even: treatment of the last batches if they do not suffice for all processes: "error" raises an error,
            "drop" leaves them out, "repeat" fills the round with the first batches of the epoch.
        seed: the seed of the data, the same in all processes; by default the flow's own, or 0.
        timeout: seconds that a batch may take in a worker; a slower one is a `DatapointTimeoutError`.
        start_method: "spawn" (the default), or "thread" (the default on free-threaded Python). A fork
            of the threads of JAX can deadlock.
        worker_init_fn: called in each worker with its number.
        prefetch_bytes: limit of the bytes made ahead, and of those that the consumer keeps without a copy.

    Raises:
        ArgumentError: an argument has an invalid value, or contradicts another one.
        ArgumentTypeError: `sharding` is not a sharding.
        BatchError: datapoints cannot be stacked; raised while iterating.
        ComponentError: JAX cannot hold an array; raised while iterating.

    Warns:
        UserWarning: a pass had more or fewer batches than `len()`.

    Example:
        >>> for numbers, halves in DataLoader([[1, 0.5], [2, 1.5], [3, 2.5]], batch_size=2):
        ...     print(numbers, halves)
        [1 2] [0.5 1.5]
        [3] [2.5]
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
        sharding: Any = None,
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
        if sharding is not None and not isinstance(sharding, jax.sharding.Sharding):
            raise ArgumentTypeError(
                f"sharding is a jax.sharding.Sharding, or None for the default device; received {sharding!r}"
            )
        self._sharding = sharding
        self._reads_ahead = sharding is not None or jax.default_backend() != "cpu"
        options = LoaderOptions(
            num_workers, rank, world_size, even, seed, timeout, start_method, worker_init_fn, prefetch_bytes
        )
        super().__init__(PlainArrays(batches), options)

    def _detected_ranks(self) -> tuple[int, int]:
        return jax.process_index(), jax.process_count()

    def _converted(self, datapoint: Any) -> Any:
        return mapped(datapoint, lambda value, path: _jax_array(value, path, self._sharding))


_TEXT = "SUO"
_NARROW = {"i": np.int32, "u": np.uint32, "f": np.float32, "c": np.complex64}


def _jax_array(value: Any, path: tuple[Any, ...], sharding: Any) -> Any:
    """Returns an array or a NumPy scalar as a JAX array; text, objects and other values unchanged.

    On the CPU, the JAX array shares the memory of an array that is aligned to 64 bytes, and keeps that memory
    from being used again.

    Args:
        value: an array, or any other value.
        path: its place in the datapoint.
        sharding: a `jax.sharding.Sharding` of the global array; `None` for the default device.

    Raises:
        ComponentError: JAX has no such dtype, an integer exceeds 32 bits without `jax_enable_x64`, or the
            sharding does not fit the shape.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind in _TEXT:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise refused(path, "a masked array; use x.filled(0) in a MapDataComponent below")
    value = _narrow(value, path)
    try:
        if sharding is None:
            return jax.device_put(value)
        return jax.make_array_from_process_local_data(sharding, value)
    except (AssertionError, TypeError, ValueError) as error:  # JAX asserts that a sharding fits
        raise refused(
            path,
            f"an array of {value.dtype} with shape {value.shape}, which JAX refuses: {error}. A smaller "
            "last batch does not fit a sharding: use drop_last=True, or BatchData without remainder",
        ) from error


def _narrow(value: np.ndarray, path: tuple[Any, ...]) -> np.ndarray:
    """Returns 64-bit numbers in 32 bits, as JAX does by default; no integer may change."""
    dtype = value.dtype
    if dtype.kind not in _NARROW or dtype.itemsize < (16 if dtype.kind == "c" else 8):
        return value
    if jax.config.jax_enable_x64:
        return value
    narrow: np.ndarray = value.astype(_NARROW[dtype.kind])
    if dtype.kind in "iu" and not np.array_equal(narrow, value):
        raise refused(
            path,
            f"an array of {dtype} with numbers beyond 32 bits, which JAX would change; set "
            'jax.config.update("jax_enable_x64", True)',
        )
    return narrow
