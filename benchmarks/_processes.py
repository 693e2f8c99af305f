"""Subjects of a benchmark in separate processes: TensorFlow chooses its threads once per process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

_SECONDS_TO_LEAVE = 10

Function = Callable[[], Any]
Maker = Callable[[], "Function | Mapping[str, Function]"]


@contextlib.contextmanager
def running(
    makers: Mapping[str, Maker], environment: Mapping[str, str] | None = None
) -> Iterator[dict[str, Function]]:
    """Runs each maker in a separate process; yields proxies of the functions that the makers return.

    Args:
        makers: by name, functions of a module that get ready and return the function to measure, or several
            by names of their own.
        environment: what the processes have besides this one's environment.
    """
    context = multiprocessing.get_context("spawn")
    lines: list[Connection] = []
    processes = []
    functions: dict[str, Function] = {}
    with _environment(environment or {}):
        for name, maker in makers.items():
            ours, theirs = context.Pipe()
            # Not daemonic: a subject may have workers.
            process = context.Process(target=_serve, args=(name, maker, theirs), daemon=False)
            process.start()
            theirs.close()  # so that a process that dies is an end-of-file, not silence
            lines.append(ours)
            processes.append(process)
    try:
        for line in lines:
            for name in line.recv():
                functions[name] = _caller(line, name)
        yield functions
    finally:
        for line in lines:
            with contextlib.suppress(OSError):
                line.send(None)
        for process in processes:
            process.join(_SECONDS_TO_LEAVE)
            # Workers that a peer has left behind, too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _caller(line: Connection, name: str) -> Function:
    def call() -> Any:
        line.send(name)
        return line.recv()

    return call


def _serve(name: str, maker: Maker, line: Connection) -> None:
    os.setpgid(0, 0)
    made = maker()
    functions = made if isinstance(made, Mapping) else {name: made}
    line.send(list(functions))
    while (wanted := line.recv()) is not None:
        line.send(functions[wanted]())


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
