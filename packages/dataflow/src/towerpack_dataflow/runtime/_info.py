"""Which worker this is."""

from __future__ import annotations

from typing import NamedTuple


class WorkerInfo(NamedTuple):
    """Tells code that runs in a worker process where it is.

    Attributes:
        number: from 0 to `num_workers - 1`.
        num_workers: how many workers the runner has.
    """

    number: int
    num_workers: int


class _Process:
    """What is true of this process alone; a worker learns it once, when it starts."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this code runs in; `None` in the main process.

    Datapoints do not depend on it, since the same ones come whatever the number of workers. It is good for
    file names, log messages and the choice of a device.

    Example:
        >>> get_worker_info() is None
        True
    """
    return _Process.info


def set_worker_info(info: WorkerInfo) -> None:
    """Called once in each worker."""
    _Process.info = info
