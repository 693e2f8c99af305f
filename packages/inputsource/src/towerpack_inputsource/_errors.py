"""Errors between a flow and a graph, each with the builtin that it is a case of.

InputSourceError
├── SetupError            RuntimeError   a source used before its setup, set up twice, or used by two
├── NotRunningError       RuntimeError   a call that needs the live session
├── StagingError          RuntimeError   runs that need the staged input of some towers only
├── SpecError             ValueError     specs that no source can serve
├── EmptyFlowError        ValueError     a flow to be repeated without a datapoint
├── FlowEndError          RuntimeError   a flow raised the error that means a clean end to a session
├── FlowPreemptionError   RuntimeError   a flow raised an error that makes a session begin anew
└── DatapointError        ValueError     a datapoint that does not fit the specs
    ├── DatapointStructureError          … number or names of components
    ├── DatapointShapeError              … shape of a component
    └── DatapointTypeError  TypeError    … dtype of a component
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
    "The session was closed before its hooks ended, so how far it got is not known. "
    "Call state_dict() while the session is open, or end the hooks first."
)


class InputSourceError(Exception):
    """Base of every error that this wheel raises itself; errors of a flow pass through unchanged."""


class SetupError(InputSourceError, RuntimeError):
    """A source was used before its `setup()`, or beyond what one source can serve.

    One source serves one graph and one live session, and a flow is read by one source at a time.
    """


class NotRunningError(InputSourceError, RuntimeError):
    """A call that needs the live session came before the hooks saw one, or after it was closed."""


class StagingError(InputSourceError, RuntimeError):
    """Runs took the staged input of some towers, and left out that of others."""


class SpecError(InputSourceError, ValueError):
    """The specs given to `setup()` have no name, share one, or clash with an op of the graph."""


class EmptyFlowError(InputSourceError, towerpack_dataflow.EmptyFlowError):
    """A whole pass over a flow that repeats for ever gave no datapoint.

    It is a case of the error that flows raise for the same reason: `except` that one for both.
    """


class FlowEndError(InputSourceError, RuntimeError):
    """A flow raised `OutOfRangeError`, which a session would take for a clean end and swallow."""


class FlowPreemptionError(InputSourceError, RuntimeError):
    """A flow raised `AbortedError` or `UnavailableError`, after which a session would begin anew."""


class DatapointError(InputSourceError, ValueError):
    """A datapoint does not fit the declared specs."""


class DatapointStructureError(DatapointError):
    """A datapoint has the wrong number of components, or the wrong names."""


class DatapointShapeError(DatapointError):
    """A component's shape is not the declared one."""


class DatapointTypeError(DatapointError, TypeError):
    """A component's dtype is not the declared one."""
