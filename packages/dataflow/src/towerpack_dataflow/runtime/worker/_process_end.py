"""The end of a worker's process: after its work, or with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import threading

__all__ = ["die_with", "leave"]

_GRACE = 0.2  # seconds that a worker may take to exit after the end of its parent
_PR_SET_PDEATHSIG = 1
# Acquired by the thread that ends the process, and never released: replacements of `os._exit` that save data
# at exit, as coverage tools do, need not be thread-safe.
_ENDING = threading.Lock()


def die_with(parent: int, end: socket.socket, lifeline: int) -> None:
    """Ends this process after the end of its parent, even in the middle of a datapoint.

    The kernel's parent-death signal works even inside C code that never returns, but is sent at the end of
    the *thread* that started this process; so it is requested only if that was the main thread. Otherwise a
    pipe, with its other end only in the parent, sends the same signal.
    """
    if lifeline >= 0:
        import fcntl  # Windows has none, and no worker processes

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    elif sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent, end.fileno()), daemon=True, name="parent watch").start()


def _watch(parent: int, connection: int) -> None:
    poll = select.poll()
    poll.register(connection, 0)  # reports only that the other end is closed
    # On an old kernel, or another system, only the connection reveals the end of the parent.
    with contextlib.suppress(AttributeError, OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    poll.poll()
    threading.Event().wait(_GRACE)
    _end(1)


def leave(code: int) -> None:
    """Ends this process like multiprocessing: without a long shutdown, and without inherited exit hooks.

    Workers of this worker end independently.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    _end(code)


def _end(code: int) -> None:
    with _ENDING:
        os._exit(code)
