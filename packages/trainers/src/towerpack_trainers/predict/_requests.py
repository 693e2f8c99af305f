"""Requests to an asynchronous predictor: calls, whose threads wait, and tasks, which have a future. Pure."""

from __future__ import annotations

import abc
import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, final

from .._errors import TrainerStateError

__all__ = ["Call", "Reply", "Request", "Task", "Turn", "WorkerLocal", "answer_all"]

_log = logging.getLogger("towerpack_trainers")

# How many of the waiting threads are woken at once: each wakes the next one. All at once, they would wait for
# the interpreter, and each would be put to sleep and woken once more.
_WOKEN_AT_ONCE = 2


@final
class WorkerLocal(threading.local):
    """Says for each thread whether it answers requests, and must not wait for an answer.

    Attributes:
        predictor: of the thread; None in threads that answer nothing.
    """

    predictor: Any = None


class Request(abc.ABC):
    """One example to predict for.

    Args:
        arrays: one per input, without the axis of the batch.

    Attributes:
        arrays: as given.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays; only examples of equal shapes make a batch."""
        return tuple(array.shape for array in self.arrays)

    @abc.abstractmethod
    def begin(self) -> bool:
        """Returns whether the answer is still wanted; from then on, it will come."""

    @abc.abstractmethod
    def answer(self, result: Any, error: BaseException | None) -> Turn | None:
        """Takes the result, or the error instead of one; returns the turn of a thread that waits by one."""


@final
class Turn:
    """What one thread waits for: it is woken by another waiting thread, and wakes the following one.

    Attributes:
        following: the turn that comes after; set before this one comes.
    """

    def __init__(self) -> None:
        self.following: Turn | None = None
        self._lock = threading.Lock()
        self._lock.acquire()
        # What happened first: the turn "came", or the thread "left". One `setdefault` is one step for all.
        self._first: dict[None, str] = {}

    def wait(self) -> None:
        """Waits for the turn, and passes it on.

        Ctrl-C may end the wait; then the turn passes by this thread when it comes.
        """
        try:
            self._lock.acquire()
        finally:
            if self._first.setdefault(None, "left") == "came" and self.following is not None:
                self.following.come()

    def come(self) -> None:
        """Lets `wait` return."""
        turn: Turn | None = self
        while turn is not None and turn._first.setdefault(None, "came") == "left":
            turn = turn.following
        if turn is not None:
            turn._lock.release()


@final
class Call(Request):
    """A request whose thread does nothing but wait, which costs less than a future."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self._turn = Turn()
        self._answer: tuple[Any, BaseException | None] = None, None

    def begin(self) -> bool:
        return True

    def answer(self, result: Any, error: BaseException | None) -> Turn:
        self._answer = result, error
        return self._turn

    def wait(self) -> Any:
        """Waits for the answer and returns it, or raises the error."""
        self._turn.wait()
        result, error = self._answer
        if error is not None:
            raise _own_copy(error)
        return result


@final
class Reply(Future[Any]):
    """A future; the first thread that waits for it without a time limit does so by a `Turn`.

    Args:
        worker: of the threads that answer requests.
    """

    def __init__(self, worker: WorkerLocal) -> None:
        super().__init__()
        self._worker = worker
        # What came first: the turn of a waiting thread; or None, as there will be an answer or none.
        self._first: dict[None, Turn | None] = {}

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result, or raises the error; see `concurrent.futures.Future`.

        Raises:
            TrainerStateError: there is none yet, and this is a thread that makes them.
        """
        self._check_may_wait(timeout)
        if timeout is None and not self._first:
            turn = Turn()
            if self._first.setdefault(None, turn) is turn:
                turn.wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the error, or None; see `concurrent.futures.Future`.

        Raises:
            TrainerStateError: as `result`.
        """
        self._check_may_wait(timeout)
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Adds a callback; what it raises is logged, also `SystemExit`, as its thread answers others."""

        def call(future: Future[Any]) -> None:
            try:
                fn(future)
            except BaseException as error:
                if isinstance(error, Exception) or self._worker.predictor is None:
                    raise  # `Future` logs the first kind; the second is of the user's own thread
                _log.exception("The callback %r of a prediction raised %r; it ends nothing.", fn, error)

        super().add_done_callback(call)

    def _check_may_wait(self, timeout: float | None) -> None:
        if timeout is None and self._worker.predictor is not None and not self.done():
            raise TrainerStateError(
                "A callback of a prediction waits for another prediction, in the thread that makes them: it "
                "would wait for ever. Give that one a callback as well, or wait in a thread of your own."
            )

    def cancel(self) -> bool:
        """Cancels the request, if it still waits; see `concurrent.futures.Future`."""
        cancelled = super().cancel()
        if cancelled and (turn := self.settle()) is not None:
            turn.come()
        return cancelled

    def settle(self) -> Turn | None:
        """Returns the turn of the thread that waits by one; later ones wait as for any future."""
        return self._first.setdefault(None, None)


@final
class Task(Request):
    """A request with a future.

    Args:
        arrays: as for `Request`.
        worker: of the threads that answer requests.

    Attributes:
        future: has the answer, later.
    """

    def __init__(self, arrays: Sequence[Any], worker: WorkerLocal) -> None:
        super().__init__(arrays)
        self.future = Reply(worker)

    def begin(self) -> bool:
        if self.future.done() and not self.future.cancelled():  # its owner has set the result
            if (turn := self.future.settle()) is not None:
                turn.come()
            return False
        return self.future.set_running_or_notify_cancel()

    def answer(self, result: Any, error: BaseException | None) -> Turn | None:
        turn = self.future.settle()  # before callbacks run, which may ask for the result
        with contextlib.suppress(InvalidStateError):  # its owner has set the result
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(_own_copy(error))
        return turn


def answer_all(
    requests: Sequence[Request], results: Sequence[Any], error: BaseException | None = None
) -> None:
    """Gives each request its result, or all of them the error.

    Args:
        requests: the requests.
        results: one for each of them, unless there is an error.
        error: what happened instead.
    """
    answers = [None] * len(requests) if error else results
    answered = [request.answer(result, error) for request, result in zip(requests, answers)]
    turns = [turn for turn in answered if turn is not None]
    for turn, following in zip(turns, turns[_WOKEN_AT_ONCE:]):
        turn.following = following
    for turn in turns[:_WOKEN_AT_ONCE]:
        turn.come()


def _own_copy(error: BaseException) -> BaseException:
    """Returns a copy for one thread to raise: each raise writes a traceback into the exception."""
    try:
        copied = copy.copy(error)
    except BaseException:  # whatever copying a user's exception raises
        return error
    return copied.with_traceback(error.__traceback__) if type(copied) is type(error) else error
