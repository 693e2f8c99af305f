"""Errors that cross from a worker to its parent and keep their type, traceback and place."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import NamedTuple, final

from ..._errors import WorkerError
from ...flow._error_location import blame, blamed_place
from ...flow._flow import DataFlow

__all__ = ["Failure", "WorkerTraceback", "pack_error", "unpack_error"]


@final
class Failure(NamedTuple):
    """An exception, ready to travel.

    Attributes:
        pickled: the exception; empty if it cannot be pickled, or not be rebuilt from its pickle.
        summary: its type and message.
        trace: the worker's traceback, as text.
        place: child numbers on the way to the flow that raised it.
    """

    pickled: bytes
    summary: str
    trace: str
    place: tuple[int, ...]


class WorkerTraceback(Exception):
    """The cause of an error that was raised in a worker: the traceback there, as text."""

    def __init__(self, trace: str) -> None:
        """Keeps the text."""
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        """Returns the text as the traceback module would print it there."""
        return f"in the worker\n\n{self.trace}"


def pack_error(error: BaseException, flow: DataFlow | None = None) -> Failure:
    """Packs `error`, raised while `flow` was iterated in this process."""
    trace = "".join(traceback.format_exception(error))
    place = blamed_place(error, flow) if flow is not None else ()
    summary = traceback.format_exception_only(error)[-1].strip()
    return Failure(_pickled(error), summary, trace, place)


def unpack_error(failure: Failure, flow: DataFlow | None = None) -> BaseException:
    """Returns the exception, of its own type, with the worker's traceback as its cause.

    Args:
        failure: from the worker.
        flow: this process's copy of the flow there; the error remembers which part of it is to blame.
    """
    error = _rebuilt(failure)
    error.__cause__ = WorkerTraceback(failure.trace)
    if flow is not None and isinstance(error, Exception):
        for number in failure.place:
            flow = flow._children()[number]
        blame(error, flow)
    return error


def _pickled(error: BaseException) -> bytes:
    # Exceptions whose constructor takes other arguments than they keep can be pickled and not unpickled.
    try:
        pickled = _dumps(error)
        return pickled if type(pickle.loads(pickled)) is type(error) else b""
    except Exception:
        return b""


def _dumps(error: BaseException) -> bytes:
    try:
        return pickle.dumps(error, 5)
    except Exception:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(error, 5)
        return pickled


def _rebuilt(failure: Failure) -> BaseException:
    if failure.pickled:
        with contextlib.suppress(Exception):  # its class may be known only in the worker
            error: BaseException = pickle.loads(failure.pickled)
            return error
    return WorkerError(
        f"a worker raised {failure.summary}; an exception of this type cannot be sent between processes "
        "(it does not survive pickling), so that this stands for it"
    )
