"""Requests to an asynchronous predictor: calls, whose threads wait, and tasks, which have a future. Pure."""

from __future__ import annotations

import abc
import copy
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, final

__all__ = ["Call", "Request", "Task", "answer_all"]

# How many of the waiting threads are woken at once: each wakes the next one. All at once, they would wait for
# the interpreter, and each would be put to sleep and woken once more.
_WOKEN_AT_ONCE = 2


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
    def answer(self, result: Any, error: BaseException | None) -> None:
        """Takes the result, or the error instead of one."""


@final
class Task(Request):
    """A request with a future.

    Attributes:
        future: has the answer, later.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.future: Future[Any] = Future()

    def begin(self) -> bool:
        return self.future.set_running_or_notify_cancel()

    def answer(self, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(_own_copy(error))


@final
class Call(Request):
    """A request whose thread does nothing but wait, which costs less than a future.

    Attributes:
        following: the call whose thread this one's wakes; set before this one is woken.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.following: Call | None = None
        self._answer: tuple[Any, BaseException | None] = None, None
        self._turn = threading.Lock()
        self._turn.acquire()
        # What happened first: "woken", or the thread "left". One `setdefault` is one step for all threads.
        self._first: dict[None, str] = {}

    def begin(self) -> bool:
        return True

    def answer(self, result: Any, error: BaseException | None) -> None:
        self._answer = result, error

    def wait(self) -> Any:
        """Waits for the answer and returns it, or raises the error.

        Ctrl-C may end the wait; then the threads behind this one are woken without it.
        """
        try:
            self._turn.acquire()
        finally:
            if self._first.setdefault(None, "left") == "woken" and self.following is not None:
                self.following.wake()
        result, error = self._answer
        if error is not None:
            raise _own_copy(error)
        return result

    def wake(self) -> None:
        """Lets `wait` return, which goes on to wake the following one."""
        call: Call | None = self
        while call is not None and call._first.setdefault(None, "woken") == "left":
            call = call.following
        if call is not None:
            call._turn.release()


def answer_all(
    requests: Sequence[Request], results: Sequence[Any], error: BaseException | None = None
) -> None:
    """Gives each request its result, or all of them the error.

    Args:
        requests: the requests.
        results: one for each of them, unless there is an error.
        error: what happened instead.
    """
    for index, request in enumerate(requests):
        request.answer(None if error else results[index], error)
    calls = [request for request in requests if isinstance(request, Call)]
    for call, following in zip(calls, calls[_WOKEN_AT_ONCE:]):
        call.following = following
    for call in calls[:_WOKEN_AT_ONCE]:
        call.wake()


def _own_copy(error: BaseException) -> BaseException:
    """Returns a copy for one thread to raise: each raise writes a traceback into the exception."""
    try:
        copied = copy.copy(error)
    except Exception:  # whatever copying a user's exception raises
        return error
    return copied.with_traceback(error.__traceback__) if type(copied) is type(error) else error
