"""The workers of one pool: start, replacement and end."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any, final

from ..._errors import WorkerError
from ..transport._captured_generators import warn_of_captured
from ..transport._flow_pickle import WorkerPayload
from ..worker._task_handler import TaskHandler, WorkerInfo, WorkerService
from ..worker._worker_options import WorkerOptions
from ..worker._worker_process import WorkerProcess, end_all
from ..worker._worker_thread import WorkerThread
from ._worker_handle import WorkerHandle, WorkerPoll, start_worker

__all__ = ["WorkerGroup", "is_stuck"]

_log = logging.getLogger("towerpack_dataflow")

_LONG = 0.5  # seconds at one task, after which no other task is queued behind it


@final
class WorkerGroup:
    """Starts and ends workers; the pool's lock protects it.

    Args:
        num_workers: number of workers.
        options: the options of the workers.

        Attributes:
            workers: the workers by number; empty before the start and after the end.
            poll: waits for them.
            handler: the handler sent to them.
    """

    def __init__(self, num_workers: int, options: WorkerOptions) -> None:
        """Starts nothing."""
        self._total = num_workers
        self._options = options
        self._payload: WorkerPayload | None = None
        self._owner = os.getpid()
        self._started_before = 0
        self.workers: list[WorkerHandle] = []
        self.poll: WorkerPoll | None = None
        self.handler: TaskHandler | WorkerService | None = None
        self._late: list[WorkerProcess | WorkerThread] = []  # abandoned threads that still run

    @property
    def is_ours(self) -> bool:
        """Whether this process, rather than its parent before a fork, started the workers."""
        return self._owner == os.getpid()

    def start(self, handler: TaskHandler | WorkerService) -> None:
        """Starts all workers with `handler`; or none, if that fails.

        Raises:
            SendError: the handler cannot be sent.
            OSError: the system has no room for more processes or files.
        """
        self._owner = os.getpid()
        self._started_before = 0
        self.handler = handler
        init = self._options.worker_init_fn
        total = self._total
        try:
            self.poll = WorkerPoll()
            several = total > 1 and isinstance(handler, TaskHandler) and handler.divides
            if self._options.start_method == "spawn":
                contents = {**handler.contents(), "worker_init_fn": init}
                self._payload = WorkerPayload((init, handler), contents, several=several)
            elif self._options.start_method == "fork" and several:
                warn_of_captured(handler.contents())
            for number in range(total):
                self.workers.append(self._started(number, self.workers))
        except BaseException as error:
            number = len(self.workers)
            self.close()
            if isinstance(error, OSError):
                text = f"cannot start worker {number} of {total}: {error.strerror or error}"
                raise OSError(error.errno, text) from error
            raise

    def close(self) -> None:
        """Ends all workers, and wakes the thread that waits for them."""
        workers, self.workers = self.workers, []
        if self.poll is not None:
            self.poll.wake()
        for worker in workers:
            worker.channel.hang_up()
            worker.channel.close()
        end_all([worker.process for worker in workers])
        self._leave([worker.process for worker in workers])
        if self._payload is not None:
            self._payload.close()
        self.poll = self._payload = None

    def forget_copies(self) -> None:
        """Closes a fork's copies of its parent's descriptors."""
        for worker in self.workers:
            worker.channel.close()
            worker.process.close()
        self.workers = []
        self.poll = self._payload = None

    def replace(self, worker: WorkerHandle) -> None:
        """Starts a new worker in place of an ended one."""
        self._leave([worker.process])
        others = [other for other in self.workers if other is not worker]
        self.workers[worker.number] = self._started(worker.number, others)

    def least_busy(self, number: int | None) -> WorkerHandle | None:
        """Returns the worker with the fewest tasks, or worker `number`; `None` if there are no workers.

        Of idle workers, the one with the fewest slots in use needs no new one.
        """
        workers = self.workers if number is None else self.workers[number : number + 1]
        return min(workers, key=_occupation, default=None)

    def reader_of_stream(self) -> int:
        """Returns the number of the worker for a stream.

        Raises:
            WorkerError: an abandoned thread still reads the stream, and both would use its attributes.
        """
        self._leave(())
        if self._late:
            raise WorkerError(
                f"{self._late[0]} of an earlier pass is still at a datapoint of this stream, and a second "
                "thread would share the stream's state and random numbers with it; try again after it has "
                "ended, or use a MultiProcessRunner, which can kill its workers"
            )
        return min(self.workers, key=lambda worker: worker.load).number

    def seconds_left(self) -> float:
        """Returns the seconds until a datapoint has taken too long."""
        timeout = self._options.timeout or inf
        return min((worker.due(timeout) for worker in self.workers), default=inf) - monotonic()

    def late(self) -> list[WorkerHandle]:
        """Returns the workers that exceed the time limit of a datapoint."""
        now, timeout = monotonic(), self._options.timeout or inf
        return [worker for worker in self.workers if worker.due(timeout) < now]

    def in_place_of_skipped(self) -> list[Any] | None:
        """Returns the replacement for a skipped datapoint; `None` if none is skipped."""
        if not isinstance(self.handler, TaskHandler) or self._options.on_error != "skip":
            return None
        return self.handler.in_place_of_skipped()

    def warn(self, index: int, epoch: int) -> None:
        """Logs a warning that names the busy workers, and the datapoint that the consumer waits for."""
        busy = [doing for worker in self.workers if (doing := worker.doing())]
        _log.warning(
            "no result for %.0f s; the consumer waits for datapoint %d of epoch %d, and %s",
            self._options.stall_warning,
            index,
            epoch,
            "; ".join(busy) or "no worker has a task",
        )

    def _leave(self, processes: Sequence[WorkerProcess | WorkerThread]) -> None:
        self._late = [process for process in (*self._late, *processes) if not process.ended()]

    def _started(self, number: int, others: Sequence[WorkerHandle]) -> WorkerHandle:
        assert self.handler is not None and self.poll is not None
        ordinal = self._started_before
        info = WorkerInfo(number, self._total)
        worker = start_worker(self._options, info, self.handler, self._payload, others, ordinal)
        self._started_before += 1
        self.poll.watch(worker)
        return worker


def _occupation(worker: WorkerHandle) -> tuple[bool, int, int]:
    return is_stuck(worker), worker.load, worker.channel.in_use


def is_stuck(worker: WorkerHandle) -> bool:
    """Tells whether a worker's current task takes so long that no other task should wait behind it."""
    return monotonic() - worker.busy_since > _LONG
