"""Starts worker processes, detects their end, and ends them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, final

from ..transport._channel import close_all
from ..transport._large_copies import bypass_environment, environment_before
from ._task_handler import WorkerInfo
from ._worker_thread import WorkerThread

__all__ = ["WorkerProcess", "end_all", "fork", "interrupts_blocked", "lifeline", "spawn"]

_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


@final
class WorkerProcess:
    """The process of a worker, controlled by its parent.

    Attributes:
        pid: its process id.
        sentinel: a descriptor that becomes readable when it ends; -1 if the system has none, so that only the
            end of its connection reveals it.
        lifeline: this process's end of the pipe that keeps it alive, if there is one.
    """

    def __init__(self, pid: int, lifeline: Sequence[int] = ()) -> None:
        """Takes ownership of a newly started process."""
        self.pid = pid
        self.lifeline = list(lifeline)
        self._code: int | None = None
        self._stolen = False  # whether other code in this process has waited for it first
        try:
            self.sentinel = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.sentinel = -1

    def ended(self, wait: float = 0.0) -> bool:
        """Tells whether it has ended, or ends within `wait` seconds."""
        if self._code is None and wait > 0 and self.sentinel >= 0:
            poll = select.poll()
            poll.register(self.sentinel, select.POLLIN)
            poll.poll(wait * 1000)
        if self._code is None:
            self._reap(os.WNOHANG)
        return self._code is not None

    def kill(self) -> None:
        """Kills the process, and waits until it has ended."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self._reap(0)

    def close(self) -> None:
        """Closes the descriptors, once the process has ended."""
        close_all(self.lifeline)
        self.lifeline = []
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1

    def how_it_ended(self) -> str:
        """Describes the end of the process, for messages."""
        if self._stolen:
            return (
                "has ended, with an unknown exit status: other code in this process waited for it first, "
                "with os.wait() or a handler of SIGCHLD"
            )
        code = self._code or 0
        if code >= 0:
            return f"exited with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = "; possibly out of memory: the kernel sends this signal" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"

    def __str__(self) -> str:
        """Names the process, for messages."""
        return f"process {self.pid}"

    def _reap(self, flags: int) -> None:
        try:
            pid, status = os.waitpid(self.pid, flags)
        except ChildProcessError:  # a waitpid(-1) elsewhere in this process has reaped it
            self._code, self._stolen = 0, True
            return
        if pid:
            self._code = os.waitstatus_to_exitcode(status)


def spawn(end: socket.socket, payload: int, info: WorkerInfo, ordinal: int) -> WorkerProcess:
    """Starts a new interpreter, which never runs the user's main module.

    Args:
        end: its end of the connection.
        payload: descriptor of its `WorkerPayload`.
        info: number of the worker.
        ordinal: number of workers of its pool started before it.
    """
    ends = lifeline()
    files = [end.fileno(), payload, *ends[:1]]
    passed: list[int] = []
    try:
        # If this process has no standard streams, other files may have their numbers, which Popen uses
        # itself.
        import fcntl  # Windows has none, and no worker processes

        passed += [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3) for file in files]
        alive = passed[2] if ends else -1
        arguments = (*passed[:2], tuple(info), ordinal, os.getpid(), alive, environment_before())
        code = (
            f"import sys; sys.path[:] = {_search_path()!r}; "
            f"from towerpack_dataflow.runtime.worker._worker_loop import main; main{arguments!r}"
        )
        flags: Any = getattr(subprocess, "_args_from_interpreter_flags", list)()
        with interrupts_blocked():
            popen = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                stdin=subprocess.DEVNULL,
                env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, **bypass_environment()},
                pass_fds=passed,
            )
            popen.returncode = 0  # from now on WorkerProcess waits for it, and Popen must not warn
    except BaseException:
        close_all(ends[1:])
        raise
    finally:
        close_all([*passed, *ends[:1]])
    return WorkerProcess(popen.pid, ends[1:])


def lifeline() -> list[int]:
    """Returns the ends of a pipe through which the kernel ends a worker after the end of this process.

    The main thread needs none: the kernel has a signal for the end of the *thread* that started a process,
    and the main thread ends with the process.
    """
    in_main = threading.current_thread() is threading.main_thread()
    return [] if in_main or sys.platform != "linux" else list(os.pipe())


def _search_path() -> list[str]:
    """Returns the absolute import paths of this process, independent of its current working directory.

    The import system ignores entries that are not strings, and resolves a relative path at its first use.
    """
    found = []
    for entry in sys.path:
        if isinstance(entry, str):
            known = getattr(sys.path_importer_cache.get(entry), "path", entry)
            found.append(os.path.abspath(known) if entry and isinstance(known, str) else entry)
    return found


def fork(foreign: Sequence[int], live: Callable[[int, int], None]) -> WorkerProcess:
    """Starts a copy of this process, which inherits all of its memory.

    Args:
        foreign: this process's ends of its workers' connections, which the copy must close.
        live: runs in the copy, with this process and its end of the lifeline or -1; does not return.
    """
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # it is closed or missing
            stream.flush()
    ends = lifeline()
    with interrupts_blocked():
        pid = os.fork()
        if pid == 0:
            try:
                close_all([*foreign, *ends[1:]])
                live(parent, ends[0] if ends else -1)
            finally:
                os._exit(1)
    close_all(ends[:1])
    return WorkerProcess(pid, ends[1:])


def end_all(processes: Sequence[WorkerProcess | WorkerThread]) -> None:
    """Waits until all have ended, and kills those that take longer than half a second."""
    deadline = monotonic() + 0.5
    for process in processes:
        if not process.ended(max(deadline - monotonic(), 0.001)):
            process.kill()
        process.close()


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Blocks Ctrl-C inside the block.

    A child inherits the block, so Ctrl-C cannot hit it before it ignores the signal.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where no child is started
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
