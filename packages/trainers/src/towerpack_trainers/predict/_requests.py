"""Requests to an asynchronous predictor, and their bounded queue. Pure."""

from __future__ import annotations

import abc
import contextlib
import copy
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar, final

from .._errors import TrainerStateError

__all__ = [
    "Call",
    "ClosedError",
    "Reply",
    "Request",
    "RequestQueue",
    "Task",
    "Waiter",
    "WorkerLocal",
    "answer_all",
]

_log = logging.getLogger("towerpack_trainers")


T = TypeVar("T")


@final
class ClosedError(Exception):
    """A request was put into a closed queue."""


@final
class RequestQueue(Generic[T]):
    """Requests of many threads, taken in batches by one or more other threads.

    Args:
        size: the capacity; `put` waits for room.

    Example:
        >>> requests = RequestQueue(10)
        >>> for number in range(3):
        ...     requests.put(number)
        >>> requests.take(2), requests.take(2)
        ([0, 1], [2])
        >>> requests.close()
        >>> requests.take(2)
        []
    """

    def __init__(self, size: int) -> None:
        self._size, self._closed = size, False
        self._requests: deque[T] = deque()
        lock = threading.RLock()
        self._filled, self._emptied = threading.Condition(lock), threading.Condition(lock)

    def put(self, request: T, wait: bool = True) -> None:
        """Adds a request, after waiting for room.

        Args:
            request: the request.
            wait: False adds it even if the queue is full, for threads that take requests.

        Raises:
            ClosedError: the queue is closed, or is closed while this call waits.
        """
        with self._filled:
            while wait and len(self._requests) >= self._size and not self._closed:
                self._emptied.wait()
            if self._closed:
                raise ClosedError
            self._requests.append(request)
            self._filled.notify()

    def take(self, most: int) -> list[T]:
        """Waits for a request, and returns at most `most` waiting requests; none after `close`."""
        with self._filled:
            while not self._requests and not self._closed:
                self._filled.wait()
            taken = [self._requests.popleft() for _ in range(min(most, len(self._requests)))]
            self._emptied.notify(len(taken))
            return taken

    def close(self) -> None:
        """Refuses new requests; waiting ones are still taken."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()


# The number of waiting threads that are woken at once: each wakes the next one. If all were woken at once,
# they would wait for the interpreter, and each would be suspended and woken once more.
_WOKEN_AT_ONCE = 2


@final
class WorkerLocal(threading.local):
    """Marks threads that answer requests, and therefore must not wait for an answer.

    Attributes:
        predictor: the predictor of the thread; None in other threads.
    """

    predictor: Any = None


class Request(abc.ABC):
    """One example for prediction.

    Args:
        arrays: one per input, without the batch axis.

    Attributes:
        arrays: the given arrays.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays; a batch contains only examples of equal shapes."""
        return tuple(array.shape for array in self.arrays)

    @abc.abstractmethod
    def begin(self) -> bool:
        """Returns whether the answer is still needed; after True, `answer` follows."""

    @abc.abstractmethod
    def answer(self, result: Any, error: BaseException | None) -> Waiter | None:
        """Sets the result, or the error instead; returns the turn of a waiting thread, if there is one."""


@final
class Waiter:
    """A place in the chain of waiting threads: each thread is woken by another one, and wakes the next.

    Attributes:
        following: the next turn; set before this one comes.
    """

    def __init__(self) -> None:
        self.following: Waiter | None = None
        self._lock = threading.Lock()
        self._lock.acquire()
        # The first event: the turn "came", or the thread "left". A `setdefault` is atomic.
        self._first: dict[None, str] = {}

    def wait(self) -> None:
        """Waits for the turn, and passes it on.

        Ctrl-C may end the wait; the turn then skips this thread.
        """
        try:
            self._lock.acquire()
        finally:
            if self._first.setdefault(None, "left") == "came" and self.following is not None:
                self.following.come()

    def come(self) -> None:
        """Makes `wait` return."""
        waiter: Waiter | None = self
        while waiter is not None and waiter._first.setdefault(None, "came") == "left":
            waiter = waiter.following
        if waiter is not None:
            waiter._lock.release()


@final
class Call(Request):
    """A request with a thread that waits for the answer, which costs less than a future."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self._waiter = Waiter()
        self._answer: tuple[Any, BaseException | None] = None, None

    def begin(self) -> bool:
        return True

    def answer(self, result: Any, error: BaseException | None) -> Waiter:
        self._answer = result, error
        return self._waiter

    def wait(self) -> Any:
        """Waits for the answer; returns the result or raises the error."""
        self._waiter.wait()
        result, error = self._answer
        if error is not None:
            raise _own_copy(error)
        return result


@final
class Reply(Future[Any]):
    """A future. The first thread that waits for it without a time limit uses a `Waiter`.

    Args:
        worker: marks the threads that answer requests.
    """

    def __init__(self, worker: WorkerLocal) -> None:
        super().__init__()
        self._worker = worker
        # The first event: the turn of a waiting thread; or None, after the future was settled or cancelled.
        self._first: dict[None, Waiter | None] = {}

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result, or raises the error; see `concurrent.futures.Future`.

        Raises:
            TrainerStateError: the result is not available yet, and this thread computes results.
        """
        self._check_may_wait(timeout)
        if timeout is None and not self._first:
            waiter = Waiter()
            if self._first.setdefault(None, waiter) is waiter:
                waiter.wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the error, or None; see `concurrent.futures.Future`.

        Raises:
            TrainerStateError: see `result`.
        """
        self._check_may_wait(timeout)
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Adds a callback. Logs all its errors, even `SystemExit`: its thread answers other requests."""

        def call(future: Future[Any]) -> None:
            try:
                fn(future)
            except BaseException as error:
                if isinstance(error, Exception) or self._worker.predictor is None:
                    raise  # logged by `Future`, or raised in the user's own thread
                _log.exception(
                    "The callback %r of a prediction raised %r; the predictor continues.", fn, error
                )

        super().add_done_callback(call)

    def _check_may_wait(self, timeout: float | None) -> None:
        if timeout is None and self._worker.predictor is not None and not self.done():
            raise TrainerStateError(
                "A callback of a prediction waits for another prediction, in the thread that computes both: "
                "it would wait for ever. Use a callback for that prediction as well, or wait in another "
                "thread."
            )

    def cancel(self) -> bool:
        """Cancels the request, if it still waits; see `concurrent.futures.Future`."""
        cancelled = super().cancel()
        if cancelled and (waiter := self.settle()) is not None:
            waiter.come()
        return cancelled

    def settle(self) -> Waiter | None:
        """Returns the turn of the waiting thread; later threads wait as for any future."""
        return self._first.setdefault(None, None)


@final
class Task(Request):
    """A request with a future.

    Args:
        arrays: as for `Request`.
        worker: marks the threads that answer requests.

    Attributes:
        future: the future of the answer.
    """

    def __init__(self, arrays: Sequence[Any], worker: WorkerLocal) -> None:
        super().__init__(arrays)
        self.future = Reply(worker)

    def begin(self) -> bool:
        if self.future.done() and not self.future.cancelled():  # its owner has set the result
            if (waiter := self.future.settle()) is not None:
                waiter.come()
            return False
        return self.future.set_running_or_notify_cancel()

    def answer(self, result: Any, error: BaseException | None) -> Waiter | None:
        waiter = self.future.settle()  # before callbacks run, which may ask for the result
        with contextlib.suppress(InvalidStateError):  # its owner has set the result
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(_own_copy(error))
        return waiter


def answer_all(
    requests: Sequence[Request], results: Sequence[Any], error: BaseException | None = None
) -> None:
    """Sets the result of each request, or the error of all.

    Args:
        requests: the requests.
        results: one for each request, unless there is an error.
        error: the error instead of results.
    """
    answers = [None] * len(requests) if error else results
    answered = [request.answer(result, error) for request, result in zip(requests, answers)]
    turns = [waiter for waiter in answered if waiter is not None]
    for waiter, following in zip(turns, turns[_WOKEN_AT_ONCE:]):
        waiter.following = following
    for waiter in turns[:_WOKEN_AT_ONCE]:
        waiter.come()


def _own_copy(error: BaseException) -> BaseException:
    """Returns a copy for one thread to raise: each raise writes a traceback into the exception."""
    try:
        copied = copy.copy(error)
    except BaseException:  # copying a user's exception may raise any error
        return error
    return copied.with_traceback(error.__traceback__) if type(copied) is type(error) else error
