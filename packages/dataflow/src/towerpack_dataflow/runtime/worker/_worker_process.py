"""Starting worker processes, noticing their end, and ending them."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from ..transport import _streaming
from ._worker_thread import Thread

_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


class Process:
    """A child process.

    Attributes:
        pid: its number.
        sentinel: a descriptor that becomes readable when it ends; -1 where the system has none, and the end
            of its connection has to do.
    """

    def __init__(self, pid: int) -> None:
        """Takes a process that has just been started."""
        self.pid = pid
        self._code: int | None = None
        try:
            self.sentinel = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.sentinel = -1

    def ended(self, wait: float = 0.0) -> bool:
        """Whether it has ended, or does so within `wait` seconds."""
        if self._code is None and wait > 0 and self.sentinel >= 0:
            poll = select.poll()
            poll.register(self.sentinel, select.POLLIN)
            poll.poll(wait * 1000)
        if self._code is None:
            self._reap(os.WNOHANG)
        return self._code is not None

    def kill(self) -> None:
        """Ends it, and waits until it is gone."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self._reap(0)

    def close(self) -> None:
        """Forgets it, once it has ended."""
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1

    def how_it_ended(self) -> str:
        """In words."""
        code = self._code or 0
        if code >= 0:
            return f"ended by itself with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = "; out of memory, perhaps: the kernel kills this way" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"

    def __str__(self) -> str:
        """For messages."""
        return f"process {self.pid}"

    def _reap(self, flags: int) -> None:
        try:
            pid, status = os.waitpid(self.pid, flags)
        except ChildProcessError:  # somebody else's waitpid(-1) has had it
            self._code = 0
            return
        if pid:
            self._code = os.waitstatus_to_exitcode(status)


def spawn(end: socket.socket, package: int, sizes: Sequence[int], number: int, total: int) -> Process:
    """A fresh interpreter that never sees the user's main module.

    Args:
        end: its end of the connection.
        package: descriptor of what it is to do; see `Package`.
        sizes: of the parts in there.
        number: of the worker.
        total: how many there are.
    """
    guarded = int(threading.current_thread() is threading.main_thread())
    arguments = (end.fileno(), package, ",".join(map(str, sizes)), number, total, os.getpid(), guarded)
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from towerpack_dataflow.runtime.worker._worker_loop import main; main{arguments!r}"
    )
    flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)()
    with interrupts_blocked():
        popen = subprocess.Popen(
            [sys.executable, *flags, "-c", code],
            stdin=subprocess.DEVNULL,
            env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, **_streaming.environment()},
            pass_fds=(end.fileno(), package),
        )
        popen.returncode = 0  # from here on Process waits for it, and Popen must not warn that nobody does
    return Process(popen.pid)


def fork(end: socket.socket, foreign: Sequence[socket.socket], live: Callable[[int, bool], None]) -> Process:
    """A copy of this process, which inherits all of its memory.

    Args:
        end: its end of the connection.
        foreign: this process's ends of its workers' connections, which the copy must not keep open.
        live: what the copy does; does not return.
    """
    parent = os.getpid()
    guarded = threading.current_thread() is threading.main_thread()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with interrupts_blocked():
        pid = os.fork()
        if pid == 0:
            try:
                for other in foreign:
                    other.close()
                live(parent, guarded)
            finally:
                os._exit(1)
    return Process(pid)


def end_all(processes: Sequence[Process | Thread], patience: float = 0.5) -> None:
    """Waits until all have ended by themselves, but not for long."""
    deadline = monotonic() + patience
    for process in processes:
        if not process.ended(max(deadline - monotonic(), 0.001)):
            process.kill()
        process.close()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Holds Ctrl-C back for a moment.

    A child inherits that, so Ctrl-C cannot hit it before it has said that it ignores it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
