"""Starts the processes of a training on a Ray cluster, and restarts them when one dies."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from ..._errors import LaunchError, MissingExtraError, describe_error
from ._cluster import TOKEN_VARIABLE, make_token
from ._launch import free_addresses, processes_of_try

__all__ = ["launch_on_ray"]

_log = logging.getLogger("towerpack_trainers")


def launch_on_ray(
    train: Callable[[], Any],
    processes: int,
    max_restarts: int = 0,
    min_processes: int | None = None,
    options: Mapping[str, Any] | None = None,
    grace: float = 60.0,
) -> list[Any]:
    """Runs a function in several processes of a Ray cluster that train together. Needs the extra `ray`.

    Each process finds the cluster in `TF_CONFIG` and its secret in `TOWERPACK_TOKEN`, so `resolve_cluster()`
    and `DistributedTrainer` work as usual. When a process fails, the others have `grace` seconds to end; if
    restarts are left, all processes start again. The function itself continues from its checkpoint, with
    `TrainConfig(resume="auto")`; the directory must be reachable from every host on which the chief may run.

    Args:
        train: the function to run in each process; sent by cloudpickle.
        processes: the number of processes.
        max_restarts: the maximum number of restarts after failures.
        min_processes: each restart uses one process less, down to this number. None: always `processes`.
        options: Ray's options for each process, such as `{"num_cpus": 4, "num_gpus": 1}`.
        grace: the time, in seconds, for processes to end after one has failed.

    Returns:
        The return values of the function, by rank.

    Raises:
        MissingExtraError: Ray is not installed.
        LaunchError: processes failed and no restart is left; its cause is the first failure.
    """
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=True)
    for restarts in range(max_restarts + 1):
        count = processes_of_try(restarts, processes, min_processes)
        values, failure = _run_once(ray, train, count, dict(options or {}), grace)
        if failure is None:
            return values
        if restarts == max_restarts:
            raise LaunchError(
                f"The training failed {max_restarts + 1} times; the last failure was {_describe(failure)}"
            ) from failure
        _log.warning("Try %d of %d failed: %s", restarts + 1, max_restarts + 1, _describe(failure))
    raise LaunchError(f"max_restarts={max_restarts!r}: expected a whole number of at least 0.")


def _describe(failure: BaseException) -> str:
    # Ray's error begins with the whole traceback of the other process, in colours.
    cause = getattr(failure, "cause", None)
    return describe_error(failure if cause is None else cause)


@final
class _RayProcess:
    """One process of a training, run as a Ray actor."""

    def address(self) -> str:
        import ray

        (address,) = free_addresses(1, ray.util.get_node_ip_address())
        return address

    def run(self, train: Callable[[], Any], addresses: list[str], rank: int, token: str) -> Any:
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        os.environ["TF_CONFIG"] = json.dumps(task)
        os.environ[TOKEN_VARIABLE] = token
        return train()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError.of("ray", error) from error
    return ray


def _run_once(
    ray: Any, train: Callable[[], Any], count: int, options: dict[str, Any], grace: float
) -> tuple[list[Any], BaseException | None]:
    """Returns the values of all processes, and the first failure."""
    # Ray must not restart a single process: the others cannot continue with it.
    actor = ray.remote(_RayProcess).options(**{"num_cpus": 1, "max_restarts": 0, **options})
    actors = [actor.remote() for _ in range(count)]
    try:
        addresses = ray.get([process.address.remote() for process in actors])
        token = make_token()
        running = {
            process.run.remote(train, addresses, rank, token): rank for rank, process in enumerate(actors)
        }
        return _collect(ray, running, grace)
    except ray.exceptions.RayError as error:
        return [], error
    finally:
        for process in actors:
            ray.kill(process)


def _collect(ray: Any, running: dict[Any, int], grace: float) -> tuple[list[Any], BaseException | None]:
    values: list[Any] = [None] * len(running)
    failure: BaseException | None = None
    deadline = None
    while running:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        done, _ = ray.wait(list(running), num_returns=1, timeout=left)
        for finished in done:
            rank = running.pop(finished)
            try:
                values[rank] = ray.get(finished)
            except ray.exceptions.RayError as error:
                if failure is None:
                    failure, deadline = error, time.monotonic() + grace
    return values, failure
