"""Errors of input sources, each also a subclass of a builtin exception.

```
InputSourceError
├── SetupError            (RuntimeError)  a source used before setup, set up twice, or used twice at once
├── NotRunningError       (RuntimeError)  a call without the required live session
├── StagingError          (RuntimeError)  runs that took the staged input of only some towers
├── SpecError             (ValueError)    invalid specs
├── EmptyFlowError        (ValueError)    a repeated flow without datapoints
├── FlowEndError          (RuntimeError)  a flow raised an error that a session treats as a normal end
├── FlowPreemptionError   (RuntimeError)  a flow raised an error after which a session restarts
└── DatapointError        (ValueError)    a datapoint that does not match the specs
    ├── DatapointStructureError           … number or names of components
    ├── DatapointShapeError               … shape of a component
    └── DatapointTypeError  (TypeError)   … dtype of a component
```
"""

from __future__ import annotations

import towerpack_dataflow

__all__ = [
    "CLOSED_TOO_EARLY",
    "DatapointError",
    "DatapointShapeError",
    "DatapointStructureError",
    "DatapointTypeError",
    "EmptyFlowError",
    "FlowEndError",
    "FlowPreemptionError",
    "InputSourceError",
    "NotRunningError",
    "SetupError",
    "SpecError",
    "StagingError",
]

CLOSED_TOO_EARLY = (
    "The session was closed before its hooks ended, so its position is unknown. "
    "Call state_dict() while the session is open, or end the hooks first."
)


class InputSourceError(Exception):
    """Base of all errors of this wheel; errors of a flow are passed through unchanged."""


class SetupError(InputSourceError, RuntimeError):
    """A source was used before its `setup()`, or more than once at a time.

    A source serves one graph and one live session, and only one source at a time can read a flow.
    """


class NotRunningError(InputSourceError, RuntimeError):
    """A call needs the live session, but the session has not started yet or is closed."""


class StagingError(InputSourceError, RuntimeError):
    """Runs took the staged input of some towers but not of others."""


class SpecError(InputSourceError, ValueError):
    """The specs passed to `setup()` are unnamed, share a name, or clash with an op of the graph."""


class EmptyFlowError(InputSourceError, towerpack_dataflow.EmptyFlowError):
    """A whole pass over an infinitely repeated flow gave no datapoint.

    It is a subclass of the corresponding error of flows, so `except` that one to catch both.
    """


class FlowEndError(InputSourceError, RuntimeError):
    """A flow raised `OutOfRangeError`, which a session would treat as a normal end and swallow."""


class FlowPreemptionError(InputSourceError, RuntimeError):
    """A flow raised `AbortedError` or `UnavailableError`, after which a session would restart."""


class DatapointError(InputSourceError, ValueError):
    """A datapoint does not match the declared specs."""


class DatapointStructureError(DatapointError):
    """A datapoint has the wrong number of components, or the wrong names."""


class DatapointShapeError(DatapointError):
    """A component's shape does not match the declared one."""


class DatapointTypeError(DatapointError, TypeError):
    """A component's dtype does not match the declared one."""
