"""Errors sent from a worker to its parent with their type, traceback and place."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from typing import Any, NamedTuple, final

from ..._errors import WorkerError
from ...flow._flow import DataFlow
from ...flow._user_code import error_path, record_origin
from ...storage import dump_by_value

__all__ = ["Failure", "WorkerTraceback", "pack_error", "unpack_error"]


@final
class Failure(NamedTuple):
    """An exception in a form that can be sent.

    Attributes:
        pickled: the pickled exception; empty if it cannot be pickled or unpickled.
        summary: its type and message.
        trace: the worker's traceback, as text.
        place: child numbers on the way to the flow that raised it.
        error: the exception itself, if it stays in its process.
    """

    pickled: bytes
    summary: str
    trace: str
    place: tuple[int, ...]
    error: BaseException | None = None


class WorkerTraceback(Exception):
    """The cause of an error raised in a worker: its traceback as text."""

    def __init__(self, trace: str) -> None:
        """Stores the text."""
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        """Returns the traceback as printed in the worker."""
        return f"in the worker\n\n{self.trace}"


def pack_error(error: BaseException, flow: DataFlow | None = None, *, in_process: bool = False) -> Failure:
    """Packs `error`, raised while `flow` was iterated in this process.

    Args:
        error: the exception.
        flow: the root of the flows that may have raised it.
        in_process: whether it is only passed to another thread.
    """
    trace = "".join(traceback.format_exception(error))
    place = error_path(error, flow) if flow is not None else ()
    summary = traceback.format_exception_only(error)[-1].strip()
    if in_process:
        return Failure(b"", summary, trace, place, error)
    return Failure(_pickled(error), summary, trace, place)


def unpack_error(failure: Failure, flow: DataFlow | None = None) -> BaseException:
    """Returns the exception with its original type, and with the worker's traceback as its cause.

    Args:
        failure: the failure from the worker.
        flow: this process's copy of the flow there; the error records the part that raised it.
    """
    error = _rebuilt(failure)
    error.__cause__ = WorkerTraceback(failure.trace)
    if flow is not None and isinstance(error, Exception):
        for number in failure.place:
            flow = flow.children()[number]
        record_origin(error, flow)
    return error


def _pickled(error: BaseException) -> bytes:
    # Exceptions with constructor arguments that differ from their attributes can be pickled but not
    # unpickled: they are sent without their constructor.
    for form in (error, _Parts(error)):
        with contextlib.suppress(Exception):
            pickled = _dumps(form)
            if type(pickle.loads(pickled)) is type(error):
                return pickled
    return b""


@final
class _Parts:
    """An exception that unpickles without calling its constructor."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        error = self._error
        return _assembled, (type(error), error.args, vars(error))


def _assembled(kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    return error


def _dumps(error: Any) -> bytes:
    try:
        return pickle.dumps(error, 5)
    except Exception:
        return dump_by_value(error)


def _rebuilt(failure: Failure) -> BaseException:
    if failure.error is not None:
        return failure.error
    if failure.pickled:
        with contextlib.suppress(Exception):  # its class may exist only in the worker
            error: BaseException = pickle.loads(failure.pickled)
            return error
    return WorkerError(
        f"a worker raised {failure.summary}; an exception of this type cannot be sent between processes "
        "(it does not survive pickling), so this error replaces it"
    )
