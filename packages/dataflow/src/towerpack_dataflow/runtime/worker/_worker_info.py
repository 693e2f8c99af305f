"""Identifies the worker that runs the current code."""

from __future__ import annotations

import threading
from typing import NamedTuple, final

__all__ = ["WorkerInfo", "get_worker_info", "set_thread_info", "set_worker_info"]


@final
class WorkerInfo(NamedTuple):
    """The number of a worker, for code running in it.

    Attributes:
        number: from 0 to `num_workers - 1`.
        num_workers: number of workers of the runner.
    """

    number: int
    num_workers: int


@final
class _Here(threading.local):
    """The values of this thread."""

    info: WorkerInfo | None = None


@final
class _Process:
    """The values shared by all threads of a worker process; set once at its start."""

    info: WorkerInfo | None = None
    here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Returns the worker, a process or a thread, that runs the calling code; `None` outside workers.

    Datapoints do not depend on it: they are the same for any number of workers. Use it for file names, log
    messages and the choice of a device.

    Example:
        >>> get_worker_info() is None
        True
    """
    return _Process.here.info or _Process.info


def set_worker_info(info: WorkerInfo) -> None:
    """Sets the worker of this process; called once in each worker process."""
    _Process.info = info


def set_thread_info(info: WorkerInfo) -> None:
    """Sets the worker of this thread; called once in each worker thread."""
    _Process.here.info = info
