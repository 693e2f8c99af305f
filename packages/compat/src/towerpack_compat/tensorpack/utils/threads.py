"""`tensorpack.utils.concurrency`: threads that can be stopped, and processes."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = [
    "DIE",
    "LoopThread",
    "ShareSessionThread",
    "StoppableThread",
    "enable_death_signal",
    "ensure_proc_terminate",
    "is_main_thread",
    "mask_sigint",
    "start_proc_mask_signal",
    "subproc_call",
]

# Its exit handler waits for processes, and has to run after `ensure_proc_terminate` ends them.
assert multiprocessing.util
# In a queue, it ends the thread that reads the queue.
DIE = object()
_POLL_SECONDS = 0.2
_LEAVE_SECONDS = 5


class StoppableThread(threading.Thread):
    """A thread with an event that stops it.

    Args:
        evt: the event; None creates one.
    """

    def __init__(self, evt: threading.Event | None = None) -> None:
        super().__init__()
        self._stop_evt = evt or threading.Event()

    def stop(self) -> None:
        """Requests the thread to stop."""
        self._stop_evt.set()

    def stopped(self) -> bool:
        """Returns whether a stop is requested."""
        return self._stop_evt.is_set()

    def queue_put_stoppable(self, q: queue.Queue[Any], obj: Any) -> None:
        """Puts an object into a queue; returns without success if a stop is requested."""
        while not self.stopped():
            with contextlib.suppress(queue.Full):
                q.put(obj, timeout=_POLL_SECONDS)
                return

    def queue_get_stoppable(self, q: queue.Queue[Any]) -> Any:
        """Takes an object from a queue; returns None if a stop is requested."""
        while not self.stopped():
            with contextlib.suppress(queue.Empty):
                return q.get(timeout=_POLL_SECONDS)
        return None


class LoopThread(StoppableThread):
    """A thread that calls a function until a stop is requested.

    Args:
        func: the function.
        pausable: whether to support `pause` and `resume`.
    """

    def __init__(self, func: Callable[[], Any], pausable: bool = True) -> None:
        super().__init__()
        self._func, self._lock = func, threading.Lock() if pausable else None
        self.daemon = True

    def run(self) -> None:
        while not self.stopped():
            with self._lock or contextlib.nullcontext():
                pass
            self._func()

    def pause(self) -> None:
        """Pauses the loop after the current call."""
        assert self._lock is not None
        self._lock.acquire()

    def resume(self) -> None:
        """Resumes the loop."""
        assert self._lock is not None
        self._lock.release()


class ShareSessionThread(threading.Thread):
    """Runs a thread with the default session at the time of its start.

    Args:
        th: the thread.
    """

    def __init__(self, th: threading.Thread | None = None) -> None:
        super().__init__()
        self._th: Any = th
        if th is not None:
            self.name, self.daemon = th.name, th.daemon

    @contextlib.contextmanager
    def default_sess(self) -> Iterator[Any]:
        """Makes this session, if any, the default session within a block."""
        with contextlib.nullcontext() if self._sess is None else self._sess.as_default():
            yield self._sess

    def start(self) -> None:
        import tensorflow.compat.v1 as tf

        self._sess = tf.get_default_session()
        super().start()

    def run(self) -> None:
        assert self._th is not None
        with self.default_sess():
            self._th.run()


def is_main_thread() -> bool:
    """Returns whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def ensure_proc_terminate(proc: Any) -> None:
    """Terminates processes when this process ends."""
    for each in proc if isinstance(proc, Iterable) else [proc]:
        atexit.register(_end, each)


def _end(process: Any) -> None:
    if process.is_alive():
        process.terminate()
        process.join()


def enable_death_signal(_warn: bool = True) -> None:
    """Terminates this process when its parent ends."""
    import ctypes

    death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM)


@contextlib.contextmanager
def mask_sigint() -> Iterator[bool]:
    """Ignores Ctrl-C within a block of the main thread; yields whether it is ignored."""
    if not is_main_thread():
        yield False
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, before)


def start_proc_mask_signal(proc: Any) -> None:
    """Starts processes, or threads, that ignore Ctrl-C."""
    with mask_sigint():
        for each in proc if isinstance(proc, (list, tuple)) else [proc]:
            each.start()
            if hasattr(getattr(each, "context", None), "term"):
                atexit.register(_end_receiving, each)


def _end_receiving(simulator: Any) -> None:
    """Closes the sockets of a `SimulatorMaster`, which waits at one: it has to leave the socket before."""
    ends = threading.Thread(target=simulator.context.term, daemon=True)
    ends.start()
    simulator.join(_LEAVE_SECONDS)
    for socket in [*simulator.context._sockets]:
        socket.close(linger=0)
    ends.join(_LEAVE_SECONDS)


def subproc_call(cmd: str, timeout: float | None = None) -> tuple[bytes, int]:
    """Runs a shell command, and returns its output and exit status; the status is -1 after the time limit."""
    try:
        out, err = subprocess.PIPE, subprocess.STDOUT
        done = subprocess.run(cmd, shell=True, timeout=timeout, stdout=out, stderr=err)
    except subprocess.TimeoutExpired as error:
        return error.output or b"", -1
    return done.stdout, done.returncode
