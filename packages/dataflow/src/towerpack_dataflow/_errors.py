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
    "PayloadError",
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
        ├── CacheError           (ValueError)    a directory does not hold a cache of this flow
        ├── ComponentError       (LookupError)   a datapoint lacks the component asked for
        ├── DataFlowTerminated   (RuntimeError)  a flow can never give a datapoint again
        ├── DatasetError         (OSError)       a file of a data set is missing and not available for
        download
        ├── EmptyFlowError       (ValueError)    a flow without datapoints where some are needed
        ├── EnvCallError         (RuntimeError)  a vector environment's method, called out of turn
        ├── EnvError             (ValueError)    an environment does not keep to its own spaces
        ├── ErrorLimitError      (RuntimeError)  more datapoints fail than the limit allows
        ├── ExhaustedError       (RuntimeError)  a one-shot source was asked for a second pass
        ├── FlowDefinitionError  (TypeError)     a subclass of DataFlow defines too little or too much
        ├── FormatError          (ValueError)    a file's bytes violate its format
        ├── ImageError           (ValueError)    an augmentor rejects an image or its annotations
        ├── JoinError            (ValueError)    datapoints of several flows that do not go together
        ├── MessageError         (ValueError)    a message of another machine that cannot be read
        ├── NotAddressableError  (TypeError)     datapoint() was called on a stream
        ├── PayloadError         (RuntimeError)  shared memory that a flow's list lies in is gone
        ├── RemoteError          (ConnectionError)  another machine is lost, failed, or refused
        ├── SegmentError         (RuntimeError)  a file of a saved memory is missing or damaged
        ├── SendError            (TypeError)     something that cannot be sent to another process
        ├── StateError           (ValueError)    a state that cannot be restored
        ├── StorageError         (OSError)       a file elsewhere cannot be reached, or has changed
        ├── TooFewTransitionsError (LookupError) a memory holds less than a batch
        ├── UnknownLengthError   (TypeError)     len() of a flow of unknown length
        ├── UnsupportedTransformError (NotImplementedError) a transform does not support this data
        └── WorkerError          (RuntimeError)  a failure of a worker that no other type describes
            ├── ClusterError                     no Ray cluster for workers to run on
            ├── DatapointTimeoutError  (TimeoutError)  a datapoint exceeded its timeout
            ├── EnvTimeoutError        (TimeoutError)  a call of an environment exceeded its timeout
            └── WorkerDiedError                  a worker process is gone

    Example:
        >>> issubclass(BatchError, ValueError) and issubclass(BatchError, DataFlowError)
        True
    """


class ArgumentError(DataFlowError, ValueError):
    """An argument has a value that is not accepted."""


class ArgumentTypeError(DataFlowError, TypeError):
    """An argument has a type that is not accepted."""


class BatchError(DataFlowError, ValueError):
    """Datapoints of one batch do not stack: other components, shapes or dtypes."""


class CacheError(DataFlowError, ValueError):
    """A directory does not hold a cache of this flow, or a cache does not support the requested operation."""


class ComponentError(DataFlowError, LookupError):
    """A datapoint does not have the component asked for."""


class DataFlowTerminated(DataFlowError, RuntimeError):
    """Raised by a flow that has no further datapoints, in later passes either.

    Repeating flows pass it on. Input sources treat it as the end of the data.
    """


class DatasetError(DataFlowError, OSError):
    """A file of a data set is missing, cannot be downloaded, or has unexpected content."""


class EmptyFlowError(DataFlowError, ValueError):
    """A flow without datapoints is repeated endlessly, so the repetition would never yield one."""


class EnvCallError(DataFlowError, RuntimeError):
    """A method of a vector environment was called in the wrong order, such as `step()` before `reset()`."""


class EnvError(DataFlowError, ValueError):
    """An environment does not keep to its own spaces, or its spaces are not supported."""


class ErrorLimitError(DataFlowError, RuntimeError):
    """More datapoints fail than the limit of replacements allows."""


class ExhaustedError(DataFlowError, RuntimeError):
    """A second pass was started over a source that can be read only once."""


class FlowDefinitionError(DataFlowError, TypeError):
    """A subclass of `DataFlow` overrides none of the required methods, or contradictory ones."""


class FormatError(DataFlowError, ValueError):
    """A file's bytes violate its format."""


class ImageError(DataFlowError, ValueError):
    """An augmentor rejects an image, coordinates, boxes or a mask."""


class JoinError(DataFlowError, ValueError):
    """Datapoints of several flows cannot be joined: lists and dicts, or dicts with a key in common."""


class MessageError(DataFlowError, ValueError):
    """A message from another machine is malformed, damaged, too large, or of another version."""


class NotAddressableError(DataFlowError, TypeError):
    """`datapoint()` was called on a flow that can only be read in order."""


class PayloadError(DataFlowError, RuntimeError):
    """A flow came from another process, and the shared memory that holds its list no longer exists."""


class RemoteError(DataFlowError, ConnectionError):
    """The other side of a remote flow was lost, failed, was restarted, or cannot be reached."""


class SegmentError(DataFlowError, RuntimeError):
    """A file of a saved memory is missing or damaged."""


class SendError(DataFlowError, TypeError):
    """A part of a flow, a function or a value cannot be sent to a worker process or another machine."""


class StateError(DataFlowError, ValueError):
    """The argument of `load_state_dict()` is not a state of this flow.

    Attributes:
        differences: properties that differ between the flow of the state and the flow it was loaded into,
            with both values: `{"length of DataFromList": (100, 120)}`. Empty for all other causes.
    """

    def __init__(self, message: str, differences: Mapping[str, tuple[object, object]] | None = None) -> None:
        """Stores the message and the differences."""
        super().__init__(message)
        self.differences = dict(differences or {})


class StorageError(DataFlowError, OSError):
    """A remote file cannot be reached, or has changed since it was opened."""


class TooFewTransitionsError(DataFlowError, LookupError):
    """A batch was requested from a memory that holds fewer transitions."""


class UnknownLengthError(DataFlowError, TypeError):
    """`len()` was called on a flow of unknown length; a `TypeError`, so that `list(flow)` works."""

    @classmethod
    def _since(cls, reason: str) -> UnknownLengthError:
        """Returns the error with the reason, and the remedy."""
        return cls(f"{reason}; iterate over it, or fix the length of a pass with FixedSizeData(flow, size)")


class UnsupportedTransformError(DataFlowError, NotImplementedError):
    """A transform does not support the requested kind of data, such as coordinates."""


class WorkerError(DataFlowError, RuntimeError):
    """A worker failed, and the exception itself could not be sent."""


class ClusterError(WorkerError):
    """Workers are configured for a Ray cluster, but this process is not connected to one."""


class DatapointTimeoutError(WorkerError, TimeoutError):
    """A worker took longer for a datapoint than `timeout` allows."""


class EnvTimeoutError(WorkerError, TimeoutError):
    """A call of an environment took longer than `timeout` allows."""


class WorkerDiedError(WorkerError):
    """A worker process was killed, or ended by itself."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Names the extra to install when an import in the block fails.

    Args:
        name: name of the extra.
        what: the feature that needs the extra, such as "reading LMDB files".

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
