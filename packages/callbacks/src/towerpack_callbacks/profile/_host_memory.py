"""How much memory the machine and this process have."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from ..callback import Callback

__all__ = ["HostMemoryTracker"]

_GIGABYTE = 1e9
_PROC = Path("/proc")


@final
class HostMemoryTracker(Callback):
    """Puts the machine's available memory and what this process holds, in gigabytes, at each trigger.

    The statistics are `HostMemory/available_gb` and `HostMemory/process_gb` (resident, without the workers of
    parallel flows). On Linux it reads /proc; elsewhere it needs the extra "memory".

    Raises:
        ImportError: (at set-up) there is no /proc, and psutil is not installed.
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
            "HostMemoryTracker needs psutil where there is no /proc: pip install towerpack-callbacks[memory]"
        ) from error
    process = psutil.Process()
    return lambda: (psutil.virtual_memory().available, process.memory_info().rss)
