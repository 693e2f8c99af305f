"""A thread that writes, so that the step loop does not wait for disks and networks."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

__all__ = ["BackgroundWriter", "Batches"]

Item = TypeVar("Item")

# Enough for any burst; a disk that stands still shall slow the loop down, not fill the memory.
_CAPACITY = 10_000


@attrs.define
class _Shared:
    """What the thread knows. Not the writer itself, which would then never be garbage."""

    calls: queue.Queue[Callable[[], Any] | None] = attrs.field(factory=lambda: queue.Queue(_CAPACITY))
    errors: list[BaseException] = attrs.field(factory=list)


class BackgroundWriter:
    """Runs calls in a thread of its own, one after another, in the order they are submitted.

    Nothing submitted is lost while the process can still run Python: `flush` waits for all of it, and so does
    the interpreter's exit, also when the loop was left by an exception. What a call raises comes out of the
    next `submit`, `flush` or `close`, as it is; the calls after it are still made.

    Args:
        name: the thread's name, for whoever lists threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._shared = _Shared()
        self._close_thread: weakref.finalize[Any, Any] | None = None

    def submit(self, call: Callable[[], Any]) -> None:
        """Has `call()` made soon. Waits only while ten thousand others are still to be made."""
        if self._close_thread is None:
            thread = threading.Thread(target=_work, args=(self._shared,), name=self._name, daemon=True)
            thread.start()
            self._close_thread = weakref.finalize(self, _finish, self._shared, thread, os.getpid())
        self._shared.calls.put(call)
        self._raise_error()  # of an earlier call; this one is made all the same

    def flush(self) -> None:
        """Waits until all that was submitted is done, and raises the first exception of it."""
        if self._close_thread is not None:
            done = threading.Event()
            self._shared.calls.put(done.set)
            done.wait()
        self._raise_error()

    def close(self) -> None:
        """Flushes and ends the thread. A later `submit` starts another."""
        if self._close_thread is not None:
            self._close_thread()
            self._close_thread = None
        self._raise_error()

    def _raise_error(self) -> None:
        if self._shared.errors:
            error = self._shared.errors[0]
            self._shared.errors.clear()
            raise error


class Batches(Generic[Item]):
    """Hands items to a background writer in batches, each of what has come since it was last free.

    That is one call at a time when little comes, and few calls of many items when much does.

    Args:
        writer: who makes the calls.
        write: called with items in their order, in the writer's thread.
    """

    def __init__(self, writer: BackgroundWriter, write: Callable[[list[Item]], None]) -> None:
        self._writer = writer
        self._write = write
        self._items: deque[Item] = deque()
        self._asked = False

    def put(self, item: Item) -> None:
        """Has an item written soon. Waits only while ten thousand others are still to be written."""
        self._items.append(item)
        if not self._asked:
            self._asked = True
            self._writer.submit(self._drain)
        elif len(self._items) > _CAPACITY:
            self._writer.flush()

    def _drain(self) -> None:
        # First: an item that comes from here on asks again.
        self._asked = False
        batch = []
        while self._items:
            batch.append(self._items.popleft())
        if batch:
            self._write(batch)


def _work(shared: _Shared) -> None:
    while (call := shared.calls.get()) is not None:
        try:
            call()
        except BaseException as error:
            shared.errors.append(error)
        del call  # or the thread would keep what it wrote alive while it waits


def _finish(shared: _Shared, thread: threading.Thread, pid: int) -> None:
    if os.getpid() == pid:  # a forked child has the queue, but not the thread
        shared.calls.put(None)
        thread.join()
