"""`RayRunner`: runs a flow in actors on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentTypeError
from .._parallel_runner import ParallelRunner
from ..worker._worker_options import WorkerOptions

if TYPE_CHECKING:
    from ..pool._active_pass import Pool

__all__ = ["RayRunner"]


@final
class RayRunner(ParallelRunner):
    """Runs the flow below in actors on a Ray cluster, and yields exactly its datapoints. Extra `[ray]`.

    It is a `MultiProcessRunner` with workers that may be on other machines: each datapoint comes once per
    pass, in the order and with the random numbers of the flow below; states are the same, so that a run may
    resume with another number of workers, or without Ray. An addressable flow is divided among the workers, a
    stream is read by one.

    When an actor is lost, alone or with its machine, another one starts, and repeats its undelivered work; a
    warning is logged. A datapoint at which several actors in succession are lost is a `WorkerDiedError`.

    The cluster is the one that this process is connected to by `ray.init`. This package must be installed on
    its machines, and files read by the flow must exist there under the same names. The flow itself is sent by
    cloudpickle, and each actor has a copy, so large data belong into files.

    Args:
        ds: the flow below.
        num_workers: number of actors; 0 for none, with the same datapoints made in this process.
        ordered: as in `MultiProcessRunner`: `False` yields datapoints as soon as they are made.
        prefetch_bytes: limit of the bytes made ahead of the consumer.
        worker_init_fn: called in each actor with its number, before `ds` is reset there.
        on_error: as in `MultiProcessRunner`: "raise", "skip" or "retry".
        stall_warning: seconds without any result after which a warning is logged; `None` for no warning.
        actor_options: Ray's options for each actor, such as `{"num_cpus": 2, "scheduling_strategy":
            "SPREAD"}`; one processor by default. Actors without room in the cluster wait for it, and the
            others do the work.

    Raises:
        ArgumentError: an argument has an invalid value.
        ArgumentTypeError: `actor_options` is not a dict.
        ClusterError: this process is not connected to a cluster, while iterating.
        ImportError: the extra `[ray]` is missing.
        SendError: the flow cannot be sent to a worker, while iterating; the text names the part.
        WorkerDiedError: actors were lost repeatedly at one range, while iterating.

    Example:
        >>> RayRunner([1, 2, 3], 4)  # doctest: +SKIP
        RayRunner(4)
          DataFromList(3)
    """

    _work = 10e-3  # a task costs Ray about a millisecond

    def __init__(
        self,
        ds: Any,
        num_workers: int,
        *,
        ordered: bool = True,
        prefetch_bytes: int = 2**28,
        worker_init_fn: Callable[[int], Any] | None = None,
        on_error: str = "raise",
        stall_warning: float | None = 60.0,
        actor_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Checks the arguments; starts nothing."""
        options = WorkerOptions(
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            start_method="spawn",
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
        )
        super().__init__(ds, arguments.count("num_workers", num_workers, least=0), options)
        if actor_options is not None and not isinstance(actor_options, Mapping):
            raise ArgumentTypeError(
                "actor_options is a dict of Ray's options for an actor, such as {'num_cpus': 2}; received "
                f"{type(actor_options).__name__}"
            )
        self._actor_options = dict(actor_options or {})
        if self._worker_count:
            from ._ray_pool import imported_ray

            imported_ray()

    def _new_pool(self) -> Pool:
        from ._ray_pool import RayPool

        if self._worker_count == 0:
            return super()._new_pool()
        return RayPool(self._worker_count, self._options, self._actor_options)
