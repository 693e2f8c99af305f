"""`ReadAhead`: reads and prepares items in another thread, ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, Full, Queue
from typing import Any, final

__all__ = ["ReadAhead"]

_INTERVAL = 0.1  # seconds after which a thread with a full queue checks whether it is still needed


@final
class ReadAhead(Iterator[Any]):
    """Yields the items of an iterator, which another thread reads; `close()` ends the thread.

    Args:
        items: the iterator; only that thread uses it.
        depth: number of items that are ready before the consumer takes them.
    """

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        """Starts the thread."""
        self._queue: Queue[tuple[bool, Any]] = Queue(depth)
        self._stop = threading.Event()
        self._ended = False
        arguments = (items, self._queue, self._stop)  # not `self`, which would live as long as the thread
        self._thread = threading.Thread(target=_read, args=arguments, name="read ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        """Returns the next item, or raises the error of the iterator at its place."""
        if self._ended:
            raise StopIteration
        going_on, item = self._queue.get()
        if going_on:
            return item
        self._ended = True
        self._thread.join()
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        """Ends the thread, after the item that it is reading, and drops the items in the queue."""
        self._ended = True
        self._stop.set()
        while self._thread.is_alive():
            _clear(self._queue)
            self._thread.join(_INTERVAL)
        _clear(self._queue)

    def __del__(self) -> None:
        self._stop.set()


def _read(items: Iterator[Any], queue: Queue[tuple[bool, Any]], stop: threading.Event) -> None:
    try:
        for item in items:
            _put(queue, (True, item), stop)
            del item  # its memory is for the next one
            if stop.is_set():
                break
        end: tuple[bool, Any] = (False, None)
    except BaseException as error:  # the consumer raises it
        end = (False, error)
    if stop.is_set() and (close := getattr(items, "close", None)) is not None:
        close()
    _put(queue, end, stop)


def _put(queue: Queue[tuple[bool, Any]], item: tuple[bool, Any], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            queue.put(item, timeout=_INTERVAL)
            return
        except Full:
            continue


def _clear(queue: Queue[tuple[bool, Any]]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass
