"""Runs calls in a thread, so that the step loop does not wait for disks and networks.

The threads belong to a `ThreadPoolExecutor`, so the interpreter waits for all calls at exit. This module has
no imports from the wheel.
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

# Enough for any burst; a stalled disk must slow down the loop, not fill the memory.
_CAPACITY = 10_000
# The number of further errors in the notes.
_NOTES = 5


@final
class BackgroundJob:
    """Runs jobs in a background thread, at most one at a time.

    Args:
        name: name of the thread.
        on_failure: called in that thread with the exception of a job, immediately.
    """

    def __init__(self, name: str, on_failure: Callable[[Exception], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._running: tuple[ThreadPoolExecutor, Future[None]] | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Starts a job, after waiting for the previous one.

        Raises:
            Exception: the previous job raised it.
        """
        self.wait()
        pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._running = pool, _submit(pool, lambda: self._run(job))
        pool.shutdown(wait=False)  # the thread ends with the job

    def wait(self) -> None:
        """Waits for the running job, if any; a second call returns at once.

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
    """Runs calls in a separate thread, one after another, in the order of submission.

    No submitted call is lost while the process can run Python: `flush` and the interpreter's exit wait for
    all calls, also if an exception ended the loop. The next `submit`, `flush` or `close` raises the exception
    of a failed call; the calls after it still run. If several have failed by then, the notes of the exception
    list the others.

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
        """Schedules `call()`. Blocks only while ten thousand other calls are pending."""
        room, errors = self._room, self._errors
        room.acquire()

        # It has no reference to the writer, which would prevent its garbage collection.
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
        """Waits for all submitted calls, and raises the first of their exceptions."""
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
            first.add_note(f"A later call of the thread {self._name!r} also failed: {error!r}")
        if len(others) > _NOTES:
            first.add_note(f"So did {len(others) - _NOTES} more.")
        return first


@final
class Batches(Generic[Item]):
    """Passes items to a background writer in batches: all items since the writer was last free.

    Rare items take one call each, and frequent items are combined in few calls.

    Args:
        writer: the writer that runs the calls.
        write: called with items in order, in the writer's thread.
    """

    def __init__(self, writer: BackgroundWriter, write: Callable[[list[Item]], None]) -> None:
        self._writer = writer
        self._write = write
        self._items: deque[Item] = deque()
        self._submitted = False

    def put(self, item: Item) -> None:
        """Schedules an item. Blocks only while ten thousand others are pending."""
        self._items.append(item)
        if not self._submitted:
            self._submitted = True
            self._writer.submit(self._drain)
        elif len(self._items) > _CAPACITY:
            self._writer.flush()

    def _drain(self) -> None:
        # First, because an item added from here on needs another call.
        self._submitted = False
        batch = []
        while self._items:
            batch.append(self._items.popleft())
        if batch:
            self._write(batch)


def _submit(pool: ThreadPoolExecutor, call: Callable[[], None]) -> Future[None]:
    """Submits a call to a pool, or runs it here if the pool is closed because the interpreter exits."""
    try:
        return pool.submit(call)
    except RuntimeError:
        # The main thread has ended, but a training in another thread is running; from now on it writes by
        # itself.
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
    """Does nothing: when this call runs, all earlier calls are done."""


def _close(pool: ThreadPoolExecutor, pid: int) -> None:
    if os.getpid() == pid:  # a forked child has the queue but not the thread
        pool.shutdown(wait=True)
