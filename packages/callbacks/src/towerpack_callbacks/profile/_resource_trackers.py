"""Measures GPUs with NVIDIA's driver, and the memory of the machine and of this process."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback._callback import Callback

__all__ = ["GPUMemoryTracker", "GPUUtilizationTracker", "HostMemoryTracker"]


_MEGABYTE = 1e6


class _GPUTracker(Callback):
    """Samples one quantity of each GPU in a thread, only during epochs."""

    def __init__(self, devices: Sequence[int] | None = None, interval: float = 1.0) -> None:
        if not interval > 0:
            raise ValueError(f"{type(self).__name__}(interval={interval!r}): expected a number above 0.")
        self._wanted = None if devices is None else list(devices)
        self._interval = interval
        self._devices: list[int] = []
        self._rows: list[list[float]] = []
        self._sampler: _Sampler | None = None

    # ---- defined by subclasses

    def _name(self, device: int) -> str:
        raise NotImplementedError

    def _sample(self, nvml: Any, handle: Any) -> float:
        raise NotImplementedError

    def _reduce(self, samples: list[float]) -> float:
        raise NotImplementedError

    # ---- implementation

    def _setup_graph(self) -> None:
        self._nvml = _nvml()
        present = range(0 if self._nvml is None else self._nvml.nvmlDeviceGetCount())
        self._devices = list(present) if self._wanted is None else self._wanted
        if self._nvml is None:
            self._devices = []
        unknown = [device for device in self._devices if device not in present]
        if unknown:
            raise ValueError(
                f"{type(self).__name__}(devices={self._wanted}): this host has {len(present)} GPUs, "
                f"numbered from 0."
            )

    def produces(self) -> Sequence[str]:
        return [self._name(device) for device in self._devices]

    def _before_epoch(self) -> None:
        if self._devices:
            handles = [self._nvml.nvmlDeviceGetHandleByIndex(device) for device in self._devices]
            read = lambda: [self._sample(self._nvml, handle) for handle in handles]  # noqa: E731
            self._sampler = _Sampler(read, self._interval)

    def _after_epoch(self) -> None:
        self._rows += self._stop()

    def _trigger(self) -> None:
        rows, self._rows = self._rows, []
        for name, *samples in zip(self.produces(), *rows):
            if samples:
                self.trainer.monitors.put_scalar(name, self._reduce(samples))

    def _after_train(self) -> None:
        self._stop()

    def _stop(self) -> list[list[float]]:
        sampler, self._sampler = self._sampler, None
        return [] if sampler is None else sampler.stop()


@final
class GPUUtilizationTracker(_GPUTracker):
    """Puts the mean utilization of each GPU in an epoch, in percent, as `GPUUtil/<number>`.

    Without a GPU it does nothing.

    Args:
        devices: driver numbers of GPUs, independent of CUDA_VISIBLE_DEVICES; None: all.
        interval: seconds between two samples.

    Raises:
        ValueError: the interval is not above 0; or (at set-up) there is no such GPU.
        ImportError: (at set-up) there is a GPU, and the extra "gpu" is not installed.

    Example:
        >>> callbacks = [GPUUtilizationTracker(interval=0.5)]
    """

    def _name(self, device: int) -> str:
        return f"GPUUtil/{device}"

    def _sample(self, nvml: Any, handle: Any) -> float:
        return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)

    def _reduce(self, samples: list[float]) -> float:
        return sum(samples) / len(samples)


@final
class GPUMemoryTracker(_GPUTracker):
    """Puts the peak memory use of each GPU in an epoch, in megabytes, as `GPUMemory/<number>_mb`.

    The driver counts the memory allocated by all processes; TensorFlow does not return memory that it has
    allocated. Without a GPU it does nothing.

    Args:
        devices: driver numbers of GPUs, independent of CUDA_VISIBLE_DEVICES; None: all.
        interval: seconds between two samples.

    Raises:
        ValueError: the interval is not above 0; or (at set-up) there is no such GPU.
        ImportError: (at set-up) there is a GPU, and the extra "gpu" is not installed.

    Example:
        >>> callbacks = [GPUMemoryTracker(devices=[0, 1])]
    """

    def _name(self, device: int) -> str:
        return f"GPUMemory/{device}_mb"

    def _sample(self, nvml: Any, handle: Any) -> float:
        return float(nvml.nvmlDeviceGetMemoryInfo(handle).used) / _MEGABYTE

    def _reduce(self, samples: list[float]) -> float:
        return max(samples)


@final
class _Sampler:
    """Reads values in a thread: at the start, at intervals, and once more when it is stopped."""

    def __init__(self, read: Callable[[], list[float]], interval: float) -> None:
        self._read = read
        self._interval = interval
        self._rows: list[list[float]] = []
        self._error: Exception | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="towerpack-gpu", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._rows.append(self._read())
            while not self._end.wait(self._interval):
                self._rows.append(self._read())
            self._rows.append(self._read())
        except Exception as error:
            self._error = error

    def stop(self) -> list[list[float]]:
        self._end.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._rows


def _nvml() -> Any:
    """Returns NVIDIA's library, initialised; None without a GPU."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        if not tf.config.list_physical_devices("GPU"):
            return None
        raise ImportError(
            "GPU trackers need nvidia-ml-py, which is not installed: pip install towerpack-callbacks[gpu]"
        ) from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


_GIGABYTE = 1e9
_PROC = Path("/proc")


@final
class HostMemoryTracker(Callback):
    """Puts the machine's available memory and this process's memory, in gigabytes, at each trigger.

    The statistics are `HostMemory/available_gb` and `HostMemory/process_gb` (resident size, without the
    workers of parallel flows). On Linux it reads /proc; other systems need the extra "memory".

    Raises:
        ImportError: (at set-up) the system has no /proc, and psutil is not installed.

    Example:
        >>> HostMemoryTracker().produces()
        ['HostMemory/available_gb', 'HostMemory/process_gb']
    """

    chief_only = False

    def _setup_graph(self) -> None:
        self._read = _read_proc if (_PROC / "meminfo").exists() else _import_psutil_reader()

    def produces(self) -> Sequence[str]:
        return ["HostMemory/available_gb", "HostMemory/process_gb"]

    def _trigger(self) -> None:
        for name, size in zip(self.produces(), self._read()):
            self.trainer.monitors.put_scalar(name, size / _GIGABYTE)


def _read_proc() -> tuple[int, int]:
    lines = dict(line.split(":", 1) for line in (_PROC / "meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    pages = int((_PROC / "self" / "statm").read_text().split()[1])
    return available, pages * os.sysconf("SC_PAGE_SIZE")


def _import_psutil_reader() -> Callable[[], tuple[int, int]]:
    try:
        psutil = importlib.import_module("psutil")
    except ImportError as error:
        raise ImportError(
            "HostMemoryTracker needs psutil on systems without /proc: pip install towerpack-callbacks[memory]"
        ) from error
    process = psutil.Process()
    return lambda: (psutil.virtual_memory().available, process.memory_info().rss)
