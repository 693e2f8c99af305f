"""The workers of one flow on a Ray cluster, seen from this process."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, final

import numpy as np

from ..._errors import ClusterError, WorkerDiedError, extra
from ..pool._active_pass import ActivePass, Chunk
from ..transport._flow_pickle import dump_payload
from ..transport._remote_errors import Failure, unpack_error
from ..worker._task_handler import ATTEMPTS, TaskHandler, TaskResult
from ..worker._worker_options import WorkerOptions
from ._ray_worker import RayMessage, RayWorker

__all__ = ["RayPool", "imported_ray"]

_log = logging.getLogger("towerpack_dataflow")

_TASKS = 3  # of a pass per worker: one in progress, and the others waiting while Ray delivers results


@final
class _Worker:
    """An actor, and the numbers of its open passes; `starting` until the cluster has room for it."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number = number
        self.actor = actor
        self.starting: Any = actor.__ray_ready__.remote()
        self.passes: set[int] = set()


@final
class _Pass:
    """An active pass and its tasks in progress, keyed by the references to their results."""

    def __init__(self, active: ActivePass, workers: int, start: int) -> None:
        self.active = active
        self.start = start  # identifies its workers
        self.spec = tuple(active.spec._replace(trace=""))  # that directory is on this machine
        self.tasks: dict[Any, tuple[_Worker, int, int]] = {}  # with the range
        self.loads = [0] * workers


@final
class RayPool:
    """Has the methods of `WorkerPool` used by flows, with actors in place of processes.

    A lost worker is replaced, and its ranges are handed out again: a range is a function of (seed,
    epoch, index), so the datapoints are the same. Outstanding results of a lost worker are ignored, so each
    datapoint comes once.

    Args:
        num_workers: number of actors.
        options: the options of the workers; order, errors and limits are those of the flow.
        actor_options: Ray's options for each actor.
    """

    def __init__(self, num_workers: int, options: WorkerOptions, actor_options: Mapping[str, Any]) -> None:
        """Starts nothing."""
        self._total = num_workers
        self._options = options
        self._actor_options = actor_options
        self._lock = threading.RLock()
        self._workers: list[_Worker] = []
        self._payload: Any = None
        self._owner: int | None = None
        self._starts = 0
        self._numbers = count()
        self._left: deque[_Pass] = deque()

    @property
    def running(self) -> bool:
        """Whether workers exist and were started by this process."""
        return bool(self._workers) and self._owner == os.getpid()

    def start(self, handler: TaskHandler) -> None:
        """Starts the workers with `handler` through Ray; they begin when the cluster has room for them.

        Raises:
            ClusterError: this process is not connected to a cluster, or is a fork of a connected one.
            ImportError: the extra `[ray]` is missing.
            SendError: the handler cannot be sent.
        """
        ray = _connected_ray()
        if self._owner not in {None, os.getpid()}:
            raise ClusterError(
                f"process {self._owner} started these workers on Ray, and this one is a fork of it, in which "
                "Ray does not work; create the flow again in a separate process"
            )
        init = self._options.worker_init_fn
        contents = {**handler.contents(), "worker_init_fn": init}
        several = self._total > 1 and handler.divides
        pickled, raws = dump_payload((init, handler), contents, several=several)
        with self._lock:
            self._owner = os.getpid()
            self._starts += 1
            self._left.clear()
            self._payload = ray.put((pickled, [np.frombuffer(raw, np.uint8) for raw in raws]))
            self._workers = [self._started(number) for number in range(self._total)]

    def close(self) -> None:
        """Ends the workers."""
        with self._lock:
            ours, workers, self._workers, self._payload = self.running, self._workers, [], None
            for worker in workers if ours else ():
                _kill(worker.actor)

    def chunks(self, this: ActivePass) -> Iterator[Chunk]:
        """Yields the results of a pass, in the order of its dispatcher.

        Raises:
            ClusterError: Ray was shut down in the meantime.
            WorkerDiedError: workers were lost repeatedly at one range, or were ended by `close()`.
        """
        ray = _connected_ray()
        running = self._begin(this)
        try:
            while not this.dispatcher.finished:
                with self._lock:
                    self._advance(ray, running)
                chunk = this.dispatcher.take()
                if chunk is not None:
                    yield chunk
                    del chunk
                elif this.dispatcher.waits:
                    self._wait(ray, running)
        finally:
            # The garbage collector may call this at any point: the rest is done later.
            this.dispatcher.clear()
            self._left.append(running)

    def _begin(self, this: ActivePass) -> _Pass:
        this.number = next(self._numbers)
        return _Pass(this, self._total, self._starts)

    def _advance(self, ray: Any, this: _Pass) -> None:
        """Accepts the available results, and hands out tasks while there is room."""
        self._check(this)
        while self._left:
            self._forget(ray, self._left.popleft())
        self._note_started(ray)
        if this.tasks:
            tasks = list(this.tasks)
            ready, _ = ray.wait(tasks, num_returns=len(tasks), timeout=0)
            for reference in ready:
                if reference in this.tasks:  # an earlier one may have revealed that the worker is lost
                    self._accept(ray, this, reference)
        while (worker := self._least_busy(this)) is not None:
            index_range = this.active.dispatcher.next_range()
            if index_range is None:
                return
            self._assign(worker, this, *index_range)

    def _check(self, this: _Pass) -> None:
        if not self.running or this.start != self._starts:
            raise WorkerDiedError("the workers of this pass were ended while it was being read")

    def _note_started(self, ray: Any) -> None:
        starting = {worker.starting: worker for worker in self._workers if worker.starting is not None}
        if starting:
            for reference in ray.wait(list(starting), num_returns=len(starting), timeout=0)[0]:
                starting[reference].starting = None  # or lost at once, as its first task will reveal

    def _least_busy(self, this: _Pass) -> _Worker | None:
        active = this.active
        # A task given to an actor before the cluster has room for it would wait with it, possibly for ever.
        workers = [worker for worker in self._workers if worker.starting is None]
        if workers and active.pinned is None and not active.spec.addressable:
            active.pinned = workers[active.number % len(workers)].number
        if active.pinned is not None:
            workers = [worker for worker in workers if worker.number == active.pinned]
        worker = min(workers, key=lambda worker: this.loads[worker.number], default=None)
        return worker if worker is not None and this.loads[worker.number] < _TASKS else None

    def _assign(self, worker: _Worker, this: _Pass, begin: int, end: int) -> None:
        number = this.active.number
        spec = None if number in worker.passes else this.spec
        worker.passes.add(number)
        reference = worker.actor.make.remote(number, spec, begin, end)
        this.tasks[reference] = worker, begin, end
        this.loads[worker.number] += 1

    def _accept(self, ray: Any, this: _Pass, reference: Any) -> None:
        errors = ray.exceptions
        lost = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.WorkerCrashedError,
        )
        worker, begin, end = this.tasks[reference]
        try:
            parts = ray.get(reference)
        except lost as error:
            self._replace(this, worker, begin, end, error)
            return
        del this.tasks[reference]
        this.loads[worker.number] -= 1
        if isinstance(parts, Failure):
            self.close()
            raise unpack_error(parts)
        for part in parts:
            this.active.add_result(TaskResult(*part.result), RayMessage(part))

    def _replace(self, this: _Pass, worker: _Worker, begin: int, end: int, error: Exception) -> None:
        """Replaces a lost worker and takes back its tasks."""
        if self._workers[worker.number] is worker:  # another pass may have replaced it already
            _kill(worker.actor)
            self._workers[worker.number] = self._started(worker.number)
            text = "worker %d of %d on Ray is lost; another one repeats its work (%s)"
            _log.warning(text, worker.number, len(self._workers), _in_short(error))
        for reference, (other, first, _) in list(this.tasks.items()):
            if other is worker:
                del this.tasks[reference]
                this.loads[worker.number] -= 1
                this.active.take_back(first, None)
        if not this.active.may_retry(begin, "retry"):
            raise WorkerDiedError(
                f"{ATTEMPTS} workers on Ray were lost in succession, each while making "
                f"datapoints {begin} to {end - 1} of epoch {this.active.spec.epoch}; the last: "
                f"{_in_short(error)}"
            ) from error

    def _wait(self, ray: Any, this: _Pass) -> None:
        stall = self._options.stall_warning
        starting = [worker.starting for worker in self._workers if worker.starting is not None]
        ready, _ = this.active.awaited(
            lambda seconds: ray.wait([*this.tasks, *starting], num_returns=1, timeout=seconds),
            min(stall, 2**20),
        )
        if not ready:
            _log.warning(
                "no result for %.0f s; the consumer waits for datapoint %d of epoch %d. %d workers on Ray "
                "have tasks, and %d wait for room in the cluster; `ray status` shows its resources",
                stall,
                this.active.dispatcher.due,
                this.active.spec.epoch,
                sum(map(bool, this.loads)),
                len(starting),
            )

    def _forget(self, ray: Any, left: _Pass) -> None:
        for reference in left.tasks:
            with contextlib.suppress(ray.exceptions.RayError, ValueError):
                ray.cancel(reference)  # those not started
        for worker in self._workers:
            if left.active.number in worker.passes:
                worker.passes.remove(left.active.number)
                worker.actor.close.remote(left.active.number)

    def _started(self, number: int) -> _Worker:
        import ray

        options = {"num_cpus": 1, "max_restarts": 0, **self._actor_options}
        actor = ray.remote(RayWorker).options(**options)
        return _Worker(number, actor.remote(number, self._total, self._payload))


def imported_ray() -> Any:
    """Returns the module of Ray.

    Raises:
        ImportError: the extra `[ray]` is missing.
    """
    with extra("ray", "running a flow on a Ray cluster"):
        import ray
    return ray


def _connected_ray() -> Any:
    ray = imported_ray()
    if not ray.is_initialized():
        raise ClusterError(
            "RayRunner starts its workers on a connected cluster, but this process is not connected to "
            'one; call ray.init() for this machine, or ray.init("auto") for a running cluster'
        )
    return ray


def _kill(actor: Any) -> None:
    import ray

    if ray.is_initialized():
        with contextlib.suppress(ray.exceptions.RayError, ValueError):  # it may have ended already
            ray.kill(actor)


def _in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
