"""Sends datapoints one by one if they cannot be sent together, so that only unsendable ones are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ..transport._channel import PeerGoneError
from ._task_handler import ATTEMPTS, TaskHandler, TaskResult

__all__ = ["SingleSends"]


@final
class SingleSends:
    """Sends the datapoints of one result as separate results.

    A datapoint that cannot be sent is treated like one that cannot be made: its error keeps its type and
    replaces the datapoint, or the datapoint is skipped, or made again.

    Args:
        send: sends a result and its datapoints.
        handler: the handler that made them.
        inputs: the inputs they were made from, if these were sent.
    """

    def __init__(
        self, send: Callable[[TaskResult, list[Any]], None], handler: TaskHandler, inputs: list[Any] | None
    ) -> None:
        """Stores the arguments; sends nothing."""
        self._send = send
        self._handler = handler
        self._inputs = inputs

    def deliver(self, result: TaskResult, made: list[Any]) -> bool:
        """Sends all; returns whether the rest of the range is still wanted.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
        left_out = {} if len(made) == result.end - result.begin else dict(result.skipped)
        datapoints = iter(made)
        for number in range(result.begin, result.end):
            part = _part(result, number)
            found = [] if number in left_out else [next(datapoints)]
            if not self._delivered(part, found, result.begin):
                return False
        return True

    def _delivered(self, part: TaskResult, found: list[Any], first: int) -> bool:
        for attempt in range(ATTEMPTS):
            try:
                self._send(part, found)
            except PeerGoneError:
                raise
            except Exception as error:
                problem = error
            else:
                return True
            if self._handler.on_error != "retry":
                break
            if attempt < ATTEMPTS - 1:
                again, found = self._made_again(part, first)
                part = part._replace(retried=part.retried + 1, failure=again.failure or part.failure)
        return self._in_its_place(part, problem)

    def _made_again(self, part: TaskResult, first: int) -> tuple[TaskResult, list[Any]]:
        inputs = None if self._inputs is None else self._inputs[part.begin - first : part.end - first]
        result, made = self._handler.make(part.number, part.begin, part.end, inputs)
        return result, list(made)

    def _in_its_place(self, part: TaskResult, problem: Exception) -> bool:
        failure = self._handler.packed(problem)
        if self._handler.on_error == "skip":
            skipped = ((part.begin, failure.summary),)
            self._send(part._replace(skipped=skipped), self._handler.in_place_of_skipped())
            return True
        end = part._replace(end=part.begin, ended=False, going_on=False, final_marks=None, failure=failure)
        self._send(end, [])
        return False


def _part(result: TaskResult, number: int) -> TaskResult:
    """Returns the part of a result that concerns datapoint `number`."""
    first, last = number == result.begin, number + 1 == result.end
    return result._replace(
        begin=number,
        end=number + 1,
        seconds=result.seconds / (result.end - result.begin),
        ended=result.ended and last,
        going_on=result.going_on or not last,
        final_marks=result.final_marks if last else None,
        skipped=tuple(entry for entry in result.skipped if entry[0] == number),
        retried=result.retried if first else 0,
        failure=result.failure if last else None,
        logs=result.logs if first else (),
    )
