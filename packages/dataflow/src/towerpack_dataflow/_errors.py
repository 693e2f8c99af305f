"""Every error this package raises on purpose, and how an error learns where in a flow it happened."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .flow._flow import DataFlow
    from .flow._position import Position

_BLAMED = "_towerpack_blamed_flow"


class DataFlowError(Exception):
    """The root of all errors of this package; each is also the builtin that fits.

    ::

        DataFlowError
        ├── ArgumentError        (ValueError)    an argument has a value that cannot work
        ├── ArgumentTypeError    (TypeError)     an argument has a type that cannot work
        ├── BatchError           (ValueError)    datapoints that do not stack into one batch
        ├── ComponentError       (LookupError)   a datapoint lacks the component asked for
        ├── EmptyFlowError       (ValueError)    a flow that must give something gave nothing
        ├── ExhaustedError       (RuntimeError)  a one-shot source was asked for a second pass
        ├── FlowDefinitionError  (TypeError)     a subclass of DataFlow defines too little or too much
        ├── NotAddressableError  (TypeError)     datapoint() on a flow that is a stream
        ├── ParcelError          (RuntimeError)  shared memory that a flow's list lies in is gone
        ├── SendError            (TypeError)     a part of a flow that no worker process can be given
        ├── StateError           (ValueError)    a state that cannot be restored
        ├── UnknownLengthError   (TypeError)     len() of a flow that cannot know it
        └── WorkerError          (RuntimeError)  a worker failed in a way that no other type can say
            └── WorkerDiedError                  a worker process is gone

    Example:
        >>> issubclass(BatchError, ValueError) and issubclass(BatchError, DataFlowError)
        True
    """


class ArgumentError(DataFlowError, ValueError):
    """An argument has a value that cannot work."""


class ArgumentTypeError(DataFlowError, TypeError):
    """An argument has a type that cannot work."""


class BatchError(DataFlowError, ValueError):
    """Datapoints of one batch do not stack: other components, shapes or dtypes."""


class ComponentError(DataFlowError, LookupError):
    """A datapoint does not have the component asked for."""


class EmptyFlowError(DataFlowError, ValueError):
    """A flow that is repeated gives nothing, so that the repetition would never end."""


class ExhaustedError(DataFlowError, RuntimeError):
    """A source that can be read once only was asked to start again."""


class FlowDefinitionError(DataFlowError, TypeError):
    """A subclass of `DataFlow` overrides none of what it must, or contradictory methods."""


class NotAddressableError(DataFlowError, TypeError):
    """`datapoint()` was called on a flow that can only be read in order."""


class ParcelError(DataFlowError, RuntimeError):
    """A flow came from another process, and the memory that its list was packed into is gone."""


class SendError(DataFlowError, TypeError):
    """A part of a flow, or a function, cannot be sent to a worker process."""


class StateError(DataFlowError, ValueError):
    """What was given to `load_state_dict()` is not the state of such a flow."""


class UnknownLengthError(DataFlowError, TypeError):
    """`len()` of a flow whose length cannot be known; a `TypeError`, so that `list(flow)` works."""


class WorkerError(DataFlowError, RuntimeError):
    """A worker failed, and the exception itself could not be sent."""


class WorkerDiedError(WorkerError):
    """A worker process was killed, or ended by itself."""


def blame(error: Exception, flow: DataFlow) -> None:
    """Remembers on `error` that it came out of `flow`; the innermost flow that says so wins."""
    if not hasattr(error, _BLAMED):
        _try_to_set(error, _BLAMED, flow)


def explain(error: Exception, root: DataFlow, position: Position) -> None:
    """Adds a note with the path from `root` to the blamed flow, and the datapoint that was due.

    The type of the error stays. On Python 3.10, which shows no notes, they are in `__notes__` all the same.
    """
    culprit = vars(error).pop(_BLAMED, root)
    path = next(_paths(root, culprit), [root])
    names = " > ".join(flow._name() for flow in path)
    note = f"in the flow {names}, while making datapoint {position.index} of epoch {int(position.epoch)}"
    # What add_note() does on 3.11 and later.
    _try_to_set(error, "__notes__", [*getattr(error, "__notes__", []), note])


def blamed_place(error: BaseException, root: DataFlow) -> tuple[int, ...]:
    """Child numbers on the way from `root` to the flow that `error` came out of, which it forgets."""
    culprit = getattr(error, _BLAMED, root)
    vars(error).pop(_BLAMED, None)
    path = next(_paths(root, culprit), [root])
    return tuple(flow._children().index(child) for flow, child in pairwise(path))


def _paths(flow: DataFlow, culprit: DataFlow) -> Iterator[list[DataFlow]]:
    if flow is culprit:
        yield [flow]
    for child in flow._children():
        for path in _paths(child, culprit):
            yield [flow, *path]


def _try_to_set(error: Exception, name: str, value: object) -> None:
    try:
        setattr(error, name, value)
    except AttributeError:  # an exception class may forbid attributes; it then travels without the note
        return
