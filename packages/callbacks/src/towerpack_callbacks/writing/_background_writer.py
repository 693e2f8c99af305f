"""Calls made by a thread, so that the step loop does not wait for disks and networks.

The threads are those of `ThreadPoolExecutor`, so an interpreter that ends waits for all calls. This module
imports nothing of the wheel.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar, final

__all__ = ["BackgroundJob", "BackgroundWriter", "Batches"]

Item = TypeVar("Item")

# Enough for any burst; a disk that stands still must slow the loop down, not fill the memory.
_CAPACITY = 10_000
# How many further errors are named.
_NOTES = 5


@final
class BackgroundJob:
    """Runs jobs beside the thread that starts them, at most one at a time.

    Args:
        name: name of the thread.
        on_failure: called on that thread, at once, with the exception of a job.
    """

    def __init__(self, name: str, on_failure: Callable[[Exception], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._running: tuple[ThreadPoolExecutor, Future[None]] | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Starts a job, after waiting for the one before.

        Raises:
            Exception: the job before raised it.
        """
        self.wait()
        pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._running = pool, _submit(pool, lambda: self._run(job))
        pool.shutdown(wait=False)  # the thread ends with the job

    def wait(self) -> None:
        """Waits for the running job, if there is one; a second call has nothing to wait for.

        Raises:
            Exception: the job raised it.
        """
        if self._running is not None:
            (pool, job), self._running = self._running, None
            pool.shutdown(wait=True)
            job.result()

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as failure:
            self._on_failure(failure)
            raise


@final
class BackgroundWriter:
    """Makes calls in a thread of its own, one after another, in the order they are submitted.

    Nothing submitted is lost while the process can still run Python: `flush` waits for all of it, and so does
    the interpreter's exit, also when the loop was left by an exception. An exception of a call is raised by
    the next `submit`, `flush` or `close`, as it is; the calls after it are still made. If more of them have
    failed by then, its notes say with what.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._room = threading.Semaphore(_CAPACITY)
        self._errors: list[BaseException] = []
        self._pool: ThreadPoolExecutor | None = None
        self._close_pool: weakref.finalize[Any, Any] | None = None

    def submit(self, call: Callable[[], Any]) -> None:
        """Has `call()` made soon. Waits only while ten thousand other calls are still to be made."""
        room, errors = self._room, self._errors
        room.acquire()

        # It holds no reference to the writer, which would never be garbage then.
        def make() -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)
            finally:
                room.release()

        earlier = self._take_error()
        _submit(self._open(), make)  # also after an error of an earlier call
        if earlier is not None:
            raise earlier

    def flush(self) -> None:
        """Waits until all submitted calls are made, and raises the first of their exceptions."""
        if self._pool is not None:
            _submit(self._pool, _do_nothing).result()
        self._raise_error()

    def close(self) -> None:
        """Flushes and ends the thread. A later `submit` starts another."""
        if self._close_pool is not None:
            self._close_pool()
            self._pool = self._close_pool = None
        self._raise_error()

    def _open(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
            self._close_pool = weakref.finalize(self, _close, self._pool, os.getpid())
        return self._pool

    def _raise_error(self) -> None:
        error = self._take_error()
        if error is not None:
            raise error

    def _take_error(self) -> BaseException | None:
        errors = [self._errors.pop(0) for _ in range(len(self._errors))]
        if not errors:
            return None
        first, *others = errors
        for error in others[:_NOTES]:
            first.add_note(f"A later call of the thread {self._name!r} failed, too: {error!r}")
        if len(others) > _NOTES:
            first.add_note(f"So did {len(others) - _NOTES} more.")
        return first


@final
class Batches(Generic[Item]):
    """Hands items to a background writer in batches, each of those that came since it was last free.

    That is one call for each item when few come, and few calls of many items when many do.

    Args:
        writer: makes the calls.
        write: called with items in their order, in the writer's thread.
    """

    def __init__(self, writer: BackgroundWriter, write: Callable[[list[Item]], None]) -> None:
        self._writer = writer
        self._write = write
        self._items: deque[Item] = deque()
        self._submitted = False

    def put(self, item: Item) -> None:
        """Has an item written soon. Waits only while ten thousand others are still to be written."""
        self._items.append(item)
        if not self._submitted:
            self._submitted = True
            self._writer.submit(self._drain)
        elif len(self._items) > _CAPACITY:
            self._writer.flush()

    def _drain(self) -> None:
        # First: an item that comes from here on needs another call.
        self._submitted = False
        batch = []
        while self._items:
            batch.append(self._items.popleft())
        if batch:
            self._write(batch)


def _submit(pool: ThreadPoolExecutor, call: Callable[[], None]) -> Future[None]:
    """Hands a call to a pool, or makes it here if the pool takes none because the interpreter ends."""
    try:
        return pool.submit(call)
    except RuntimeError:
        # The main thread is over, but a training in another thread goes on, and writes by itself from now on.
        pool.shutdown(wait=True)
    made: Future[None] = Future()
    try:
        call()
    except BaseException as error:
        made.set_exception(error)
    else:
        made.set_result(None)
    return made


def _do_nothing() -> None:
    """Does nothing: when this call is made, all calls before it are."""


def _close(pool: ThreadPoolExecutor, pid: int) -> None:
    if os.getpid() == pid:  # a forked child has the queue, but not the thread
        pool.shutdown(wait=True)
