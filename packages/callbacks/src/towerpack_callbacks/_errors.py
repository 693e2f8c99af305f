"""The exceptions that callbacks raise.

```
RuntimeError
├── CallbackFailedError     a callback raised what a monitored session would take for something else
├── CallbackStateError      a callback was used outside the loop that drives it
└── CheckpointWriteError    a checkpoint could not be written; the previous one is whole
ValueError
├── PeriodError             a period that is not one
├── SamplesError            samples cannot be compared: too few, not finite, of another dimension
├── ScopeError              no variable of the wanted kind is in a scope
├── StatisticError          a statistic is consumed that nothing produces in time
└── CheckpointError         a checkpoint cannot be read, or does not fit
ArithmeticError
└── NonFiniteError          (also a FloatingPointError) a value became infinite or no number
LookupError
└── TensorNotFoundError     (also a KeyError) no tensor of that name
Exception
└── StopTraining            not an error: ends the training in good order
```
"""

from __future__ import annotations

__all__ = [
    "CallbackFailedError",
    "CallbackStateError",
    "CheckpointError",
    "CheckpointWriteError",
    "NonFiniteError",
    "PeriodError",
    "SamplesError",
    "ScopeError",
    "StatisticError",
    "StopTraining",
    "TensorNotFoundError",
]


class StopTraining(Exception):
    """Ends the training in good order, as after the last epoch. Any callback may raise it."""


class CallbackFailedError(RuntimeError):
    """A callback raised what a `MonitoredSession` takes for the end of the data, or for a preemption."""


class CallbackStateError(RuntimeError):
    """A callback needs its trainer, graph or session before a loop has set it up."""


class CheckpointWriteError(RuntimeError):
    """A checkpoint could not be written. Checkpoints written before are still complete."""


class PeriodError(ValueError):
    """A period was given that is not a positive number of steps, epochs or seconds."""


class SamplesError(ValueError):
    """Samples cannot be measured: they are too few, not finite, or of another dimension or shape."""


class ScopeError(ValueError):
    """No variable of the wanted kind is in a scope; the message lists the scopes that have some."""


class StatisticError(ValueError):
    """A callback needs a statistic that no callback before it produces."""


class CheckpointError(ValueError):
    """A checkpoint is unreadable, incomplete, or does not fit the graph or the callbacks."""


class NonFiniteError(FloatingPointError):
    """A variable, a gradient or a tensor has values that are infinite or no numbers."""


class TensorNotFoundError(KeyError):
    """No tensor of the wanted name exists; the message lists names that are close."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""
