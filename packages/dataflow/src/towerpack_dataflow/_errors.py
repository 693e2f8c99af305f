"""Every error that this package raises on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BatchError",
    "CacheError",
    "ClusterError",
    "ComponentError",
    "DataFlowError",
    "DataFlowTerminated",
    "DatapointTimeoutError",
    "DatasetError",
    "EmptyFlowError",
    "EnvCallError",
    "EnvError",
    "EnvTimeoutError",
    "ErrorLimitError",
    "ExhaustedError",
    "FlowDefinitionError",
    "FormatError",
    "ImageError",
    "JoinError",
    "MessageError",
    "NotAddressableError",
    "ParcelError",
    "RemoteError",
    "SegmentError",
    "SendError",
    "StateError",
    "StorageError",
    "TooFewTransitionsError",
    "UnknownLengthError",
    "UnsupportedTransformError",
    "WorkerDiedError",
    "WorkerError",
    "extra",
]


class DataFlowError(Exception):
    """The root of all errors of this package; each is also a fitting builtin.

    ::

        DataFlowError
        ├── ArgumentError        (ValueError)    an argument has a value that cannot work
        ├── ArgumentTypeError    (TypeError)     an argument has a type that cannot work
        ├── BatchError           (ValueError)    datapoints that do not stack into one batch
        ├── CacheError           (ValueError)    a directory does not hold the cache of such a flow
        ├── ComponentError       (LookupError)   a datapoint lacks the component asked for
        ├── DataFlowTerminated   (RuntimeError)  a flow can never give a datapoint again
        ├── DatasetError         (OSError)       a file of a data set is missing and cannot be had
        ├── EmptyFlowError       (ValueError)    a flow without datapoints where some are needed
        ├── EnvCallError         (RuntimeError)  a vector environment's method, called out of turn
        ├── EnvError             (ValueError)    an environment does not keep to its own spaces
        ├── ErrorLimitError      (RuntimeError)  more datapoints fail than may be replaced
        ├── ExhaustedError       (RuntimeError)  a one-shot source was asked for a second pass
        ├── FlowDefinitionError  (TypeError)     a subclass of DataFlow defines too little or too much
        ├── FormatError          (ValueError)    a file's bytes are not what its format says
        ├── ImageError           (ValueError)    an image, or what goes with it, that an augmentor cannot take
        ├── JoinError            (ValueError)    datapoints of several flows that do not go together
        ├── MessageError         (ValueError)    a message of another machine that cannot be read
        ├── NotAddressableError  (TypeError)     datapoint() on a flow that is a stream
        ├── ParcelError          (RuntimeError)  shared memory that a flow's list lies in is gone
        ├── RemoteError          (ConnectionError)  another machine is lost, has failed, or refuses
        ├── SegmentError         (RuntimeError)  a file of a saved memory is missing or damaged
        ├── SendError            (TypeError)     something that cannot be sent to another process
        ├── StateError           (ValueError)    a state that cannot be restored
        ├── StorageError         (OSError)       a file elsewhere cannot be reached, or has changed
        ├── TooFewTransitionsError (LookupError) a memory holds less than a batch
        ├── UnknownLengthError   (TypeError)     len() of a flow that cannot know it
        ├── UnsupportedTransformError (NotImplementedError) a transform of something else than asked for
        └── WorkerError          (RuntimeError)  a failure of a worker that no other type describes
            ├── ClusterError                     no Ray cluster for workers to run on
            ├── DatapointTimeoutError  (TimeoutError)  a datapoint took longer than it may
            ├── EnvTimeoutError        (TimeoutError)  a call of an environment took longer than it may
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


class CacheError(DataFlowError, ValueError):
    """A directory does not hold the cache of such a flow, or a cache cannot serve what is asked of it."""


class ComponentError(DataFlowError, LookupError):
    """A datapoint does not have the component asked for."""


class DataFlowTerminated(DataFlowError, RuntimeError):
    """A flow raises it to say that it can never give a datapoint again, in no later pass either.

    Flows that repeat hand it on. Input sources take it for the end of the data.
    """


class DatasetError(DataFlowError, OSError):
    """A file of a data set is missing, and cannot be downloaded or is not what was expected."""


class EmptyFlowError(DataFlowError, ValueError):
    """A flow that is repeated endlessly has no datapoints, so that the repetition would never yield one."""


class EnvCallError(DataFlowError, RuntimeError):
    """A method of a vector environment was called when it cannot work, such as `step()` before `reset()`."""


class EnvError(DataFlowError, ValueError):
    """An environment does not keep to its own spaces, or its spaces are not supported."""


class ErrorLimitError(DataFlowError, RuntimeError):
    """More datapoints fail than a flow may replace by others."""


class ExhaustedError(DataFlowError, RuntimeError):
    """A pass was started over a source that can be read only once, and was."""


class FlowDefinitionError(DataFlowError, TypeError):
    """A subclass of `DataFlow` overrides none of the methods that it must, or contradictory ones."""


class FormatError(DataFlowError, ValueError):
    """A file's bytes are not what its format says."""


class ImageError(DataFlowError, ValueError):
    """An image, coordinates, boxes or a mask are not what an augmentor takes."""


class JoinError(DataFlowError, ValueError):
    """Datapoints of several flows do not go together: lists and dicts, or dicts with a key in common."""


class MessageError(DataFlowError, ValueError):
    """A message of another machine is garbage, damaged, too large, or of another version."""


class NotAddressableError(DataFlowError, TypeError):
    """`datapoint()` was called on a flow that can only be read in order."""


class ParcelError(DataFlowError, RuntimeError):
    """A flow came from another process, and the shared memory that its list was packed into is gone."""


class RemoteError(DataFlowError, ConnectionError):
    """The other side of a remote flow is lost, has failed, was started anew, or cannot be reached."""


class SegmentError(DataFlowError, RuntimeError):
    """A file of a saved memory is missing, or is not as it was written."""


class SendError(DataFlowError, TypeError):
    """A part of a flow, a function or a value cannot be sent to a worker process or another machine."""


class StateError(DataFlowError, ValueError):
    """The argument of `load_state_dict()` is not the state of such a flow.

    Attributes:
        differences: what differs between the flow of the state and the one that it was loaded into, with the
            values of both: `{"length of DataFromList": (100, 120)}`. Empty when something else is wrong.
    """

    def __init__(self, message: str, differences: Mapping[str, tuple[object, object]] | None = None) -> None:
        """Takes the message, and what differs."""
        super().__init__(message)
        self.differences = dict(differences or {})


class StorageError(DataFlowError, OSError):
    """A file elsewhere cannot be reached, or has changed since it was opened."""


class TooFewTransitionsError(DataFlowError, LookupError):
    """A batch was asked of a memory that does not hold as many transitions."""


class UnknownLengthError(DataFlowError, TypeError):
    """`len()` of a flow whose length cannot be known; a `TypeError`, so that `list(flow)` works."""


class UnsupportedTransformError(DataFlowError, NotImplementedError):
    """A transform was asked to change something that it does not know how to change, such as coordinates."""


class WorkerError(DataFlowError, RuntimeError):
    """A worker failed, and the exception itself could not be sent."""


class ClusterError(WorkerError):
    """Workers are to run on a Ray cluster, and this process is connected to none."""


class DatapointTimeoutError(WorkerError, TimeoutError):
    """A worker took longer for a datapoint than `timeout` allows."""


class EnvTimeoutError(WorkerError, TimeoutError):
    """A call of an environment took longer than `timeout` allows."""


class WorkerDiedError(WorkerError):
    """A worker process was killed, or ended by itself."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Names the extra to install if an import in the block fails.

    Args:
        name: of the extra of this wheel.
        what: is not possible without it, such as "reading LMDB files".

    Raises:
        ImportError: the block raises one.

    Example:
        >>> with extra("lmdb", "reading LMDB files"):
        ...     import a_package_that_is_not_there
        Traceback (most recent call last):
            ...
        ImportError: reading LMDB files needs the extra [lmdb]: pip install 'towerpack-dataflow[lmdb]'
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs the extra [{name}]: pip install 'towerpack-dataflow[{name}]'"
        ) from error
