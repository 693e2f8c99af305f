"""How the process of a worker ends: by itself when its work is done, or else with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import sys
import threading

__all__ = ["die_with", "leave"]

_GRACE = 0.2  # seconds that a worker may take to leave by itself once its parent is gone
_PR_SET_PDEATHSIG = 1
# Taken by the thread that ends the process, and never given back: what replaces `os._exit` to keep something
# at the end, as measuring of coverage does, need not bear two threads at once.
_ENDING = threading.Lock()


def die_with(parent: int, end: socket.socket, lifeline: int) -> None:
    """Ends this process when the parent is gone, even in the middle of a datapoint.

    The kernel's own signal works even inside C code that never returns, but it is sent when the *thread*
    ends that started this process; so it is requested only if that was the main thread. Else the end of a
    pipe, whose other end only the parent has, sends the same signal.
    """
    if lifeline >= 0:
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
    # On an old kernel, or another system, the connection alone shows the parent's end.
    with contextlib.suppress(AttributeError, OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    poll.poll()
    threading.Event().wait(_GRACE)
    _end(1)


def leave(code: int) -> None:
    """Ends this process, as multiprocessing does: without a long shutdown, and hooks that a fork inherited.

    Workers of this worker end by themselves.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    _end(code)


def _end(code: int) -> None:
    with _ENDING:
        os._exit(code)
