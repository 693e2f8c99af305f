"""What can go wrong between a flow and a graph, each with the builtin it is a case of.

InputSourceError
├── SetupError            RuntimeError   a source used before, or set up after, its time
├── NotRunningError       RuntimeError   something that needs the live session
├── StagingError          RuntimeError   runs that need the staged input of some towers only
├── SpecError             ValueError     specs that no source can serve
├── EmptyFlowError        ValueError     an endless flow with nothing in it
├── FlowEndError          RuntimeError   a flow raised what the session takes for a clean end
└── DatapointError        ValueError     a datapoint that does not fit the specs
    ├── DatapointStructureError          … number or names of components
    ├── DatapointShapeError              … shape of a component
    └── DatapointTypeError  TypeError    … dtype of a component
"""

from __future__ import annotations

import towerpack_dataflow


class InputSourceError(Exception):
    """Base of every error that this wheel raises itself; errors of a flow pass through unchanged."""


class SetupError(InputSourceError, RuntimeError):
    """A source was used before its `setup()`, set up twice, or taken from more often than it can give."""


class NotRunningError(InputSourceError, RuntimeError):
    """A call that needs the live session came before the hooks saw one, or after it was closed."""


class StagingError(InputSourceError, RuntimeError):
    """Runs took the staged input of some towers, and never that of the others."""


class SpecError(InputSourceError, ValueError):
    """The specs given to `setup()` have no name, share one, or clash with what the graph holds."""


class EmptyFlowError(InputSourceError, towerpack_dataflow.EmptyFlowError):
    """A whole pass over a flow that shall repeat for ever gave no datapoint.

    It is the error that flows raise for the same reason, so `except` needs to know only one of them.
    """


class FlowEndError(InputSourceError, RuntimeError):
    """A flow raised `OutOfRangeError`, which a session would take for a clean end and swallow."""


class DatapointError(InputSourceError, ValueError):
    """A datapoint does not fit the declared specs."""


class DatapointStructureError(DatapointError):
    """A datapoint has the wrong number of components, or the wrong names."""


class DatapointShapeError(DatapointError):
    """A component's shape is not the declared one."""


class DatapointTypeError(DatapointError, TypeError):
    """A component's dtype is not the declared one."""
