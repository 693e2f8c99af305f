"""The exceptions that callbacks raise.

```
RuntimeError
├── CallbackFailedError     a callback raised an error that a monitored session would misinterpret
├── CallbackStateError      a callback was used outside the loop that drives it
└── CheckpointWriteError    a checkpoint could not be written; the previous one is whole
ValueError
├── PeriodError             an invalid period
├── SamplesError            samples cannot be compared: too few, not finite, of another dimension
├── ScopeError              a scope contains no variable of the requested kind
├── StatisticError          no earlier callback produces a consumed statistic
└── CheckpointError         a checkpoint is unreadable or does not match
ArithmeticError
└── NonFiniteError          (also a FloatingPointError) a value became infinite or NaN
LookupError
└── TensorNotFoundError     (also a KeyError) no tensor of that name
Exception
└── StopTraining            not an error: ends the training normally
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
    """Ends the training normally, as after the last epoch. Any callback may raise it."""


class CallbackFailedError(RuntimeError):
    """A callback raised an error that a `MonitoredSession` would treat as end of data or as preemption."""


class CallbackStateError(RuntimeError):
    """A callback used its trainer, graph or session before a loop set it up."""


class CheckpointWriteError(RuntimeError):
    """A checkpoint could not be written. Checkpoints written before are still complete."""


class PeriodError(ValueError):
    """A period is not a positive number of steps, epochs, seconds or environment steps."""


class SamplesError(ValueError):
    """Samples cannot be measured: they are too few, not finite, or of another dimension or shape."""


class ScopeError(ValueError):
    """A scope contains no variable of the requested kind; the message lists the scopes that do."""


class StatisticError(ValueError):
    """A callback needs a statistic that no callback before it produces."""


class CheckpointError(ValueError):
    """A checkpoint is unreadable, incomplete, or does not match the graph or the callbacks."""


class NonFiniteError(FloatingPointError):
    """A variable, a gradient or a tensor contains infinite values or NaN."""


class TensorNotFoundError(KeyError):
    """No tensor has the requested name; the message lists similar names."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""
