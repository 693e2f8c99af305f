"""The end of a worker's process: after its work, or with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence

import numpy as np

__all__ = ["die_with", "keep_freed_memory", "leave", "one_thread_per_library", "seed_global_generators"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_FROM_HEAP = 2**25  # the most that glibc accepts
_THREADS = (("cv2", "setNumThreads", 0), ("torch", "set_num_threads", 1))


def seed_global_generators(entropy: Sequence[int], number: int) -> None:
    """Seeds the process-wide generators of Python, NumPy, PyTorch and OpenCV.

    A fork has copies of its parent's generators, and PyTorch and OpenCV start with one seed in all processes.
    Without this, all workers would draw the same numbers. Datapoints with numbers from `rng=True` or
    `epoch.rng()` do not depend on them.

    Args:
        entropy: integers that determine the numbers; empty for entropy of the operating system.
        number: number of the worker in its pool.
    """
    sequence = np.random.SeedSequence(list(entropy) or None, spawn_key=(number,))
    words = [int(word) for word in sequence.generate_state(4, np.uint32)]
    random.seed(words[0] << 32 | words[1])
    # A new generator, because a thread of the parent may have held the lock of the old one during the fork.
    np.random.set_bit_generator(np.random.MT19937(sequence.spawn(1)[0]))  # type: ignore[attr-defined]
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "default_generator"):
        sys.modules["torch"].default_generator.manual_seed(words[2] << 16 | words[3] >> 16)
    if "cv2" in sys.modules and hasattr(sys.modules["cv2"], "setRNGSeed"):
        sys.modules["cv2"].setRNGSeed(words[3] >> 1)


def keep_freed_memory() -> None:
    """Makes malloc keep freed blocks, which serve the next datapoint while still warm.

    By default glibc returns blocks of this size to the system when they are freed, and gets them again, page
    by page and zeroed: for images, a tenth of a worker's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP)
        mallopt(_M_TRIM_THRESHOLD, 4 * _MOST_FROM_HEAP)


def one_thread_per_library(done: set[str]) -> None:
    """Makes OpenCV and PyTorch use one thread: the workers keep all processors busy.

    For PyTorch this is needed in a fork, too: it has none of the threads that its parent may have started,
    and an operator that is divided among them never ends.

    Args:
        done: names of the libraries that were set before, and may have been changed since; others are added.
    """
    for name, setter, threads in _THREADS:
        library = sys.modules.get(name)
        if name not in done and hasattr(library, setter):
            getattr(library, setter)(threads)
            done.add(name)


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
