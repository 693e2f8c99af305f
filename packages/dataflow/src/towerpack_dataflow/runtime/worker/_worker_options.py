"""`WorkerOptions`: the options of the workers of one flow, as one checked value."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from math import inf
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError

__all__ = ["WorkerOptions"]

_POLICIES = ("raise", "skip", "retry")
_METHODS = ("spawn", "fork", "thread")


@final
class WorkerOptions:
    """The keyword arguments that all flows with workers share; the public constructors make it, once.

    The attributes have the names of the arguments.

    Args:
        ordered: whether datapoints come in the order of the single-process flow.
        prefetch_bytes: limit of the bytes made ahead of the consumer, and of those it holds in views.
        start_method: "spawn", "fork" or "thread"; by default "thread" on a free-threaded interpreter and
            on Windows, else "spawn".
        worker_init_fn: called in each worker with its number, before anything else.
        on_error: "raise", "skip" or "retry".
        stall_warning: seconds without any progress after which a warning names the busy workers; `None` for
            no warning, kept as infinity.
        timeout: time limit of a worker for one datapoint in seconds, counted from its start; `None` for no
            limit.

    Raises:
        ArgumentError: an argument has an invalid value.
        ArgumentTypeError: `worker_init_fn` cannot be called.
    """

    def __init__(
        self,
        *,
        ordered: bool = True,
        prefetch_bytes: int = 2**28,
        start_method: str | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        on_error: str = "raise",
        stall_warning: float | None = 60.0,
        timeout: float | None = None,
    ) -> None:
        """Checks the arguments."""
        self.ordered = arguments.flag("ordered", ordered)
        self.prefetch_bytes = arguments.count("prefetch_bytes", prefetch_bytes)
        method = _default_method() if start_method is None else start_method
        self.start_method = arguments.one_of("start_method", method, _METHODS)
        if self.start_method != "thread" and not hasattr(os, "fork"):
            raise ArgumentError(
                f"start_method: this system ({sys.platform}) has no worker processes, which need POSIX; "
                f'received {self.start_method!r}. Use start_method="thread"'
            )
        self.on_error = arguments.one_of("on_error", on_error, _POLICIES)
        init = "worker_init_fn is a function of the worker's number, or None"
        self.worker_init_fn: Callable[[int], Any] | None = arguments.function(init, worker_init_fn, True)
        self.stall_warning = (
            inf if stall_warning is None else arguments.seconds("stall_warning", stall_warning)
        )
        self.timeout = None if timeout is None else arguments.seconds("timeout", timeout)


def _default_method() -> str:
    # A free-threaded build is as fast with threads as with processes, and sends nothing. Windows has no fork,
    # nor the passing of descriptors that a spawned worker needs.
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return "spawn" if locked and hasattr(os, "fork") else "thread"
