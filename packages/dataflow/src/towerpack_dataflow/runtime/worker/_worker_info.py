"""Which worker this is."""

from __future__ import annotations

import threading
from typing import NamedTuple


class WorkerInfo(NamedTuple):
    """Tells code that runs in a worker where it is.

    Attributes:
        number: from 0 to `num_workers - 1`.
        num_workers: how many workers the runner has.
    """

    number: int
    num_workers: int


class _Here(threading.local):
    """What is true of this thread alone."""

    info: WorkerInfo | None = None


class _Process:
    """What is true of a worker process, in all of its threads; it learns that once, when it starts."""

    info: WorkerInfo | None = None
    here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """The worker, a process or a thread, that this code runs in; `None` outside of workers.

    Datapoints do not depend on it, since the same ones come whatever the number of workers. It is good for
    file names, log messages and the choice of a device.

    Example:
        >>> get_worker_info() is None
        True
    """
    return _Process.here.info or _Process.info


def set_worker_info(info: WorkerInfo) -> None:
    """Called once in each worker process."""
    _Process.info = info


def set_thread_info(info: WorkerInfo) -> None:
    """Called once in each worker thread."""
    _Process.here.info = info
