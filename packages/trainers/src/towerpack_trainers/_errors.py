"""The errors of trainers.

```
RuntimeError
├── TrainerStateError     a method was called at the wrong time
├── EndOfInputError       the training input ended before the last step
├── EnvironmentStepError  an environment returned what no agent can learn from
├── ExportError           a model cannot be exported as was asked
└── PredictorProcessError a process that predicts has died or failed
ValueError
├── ConfigError           arguments of TrainConfig are wrong, or do not fit together
│   ├── LogDirTakenError  … as another run uses the directory
│   ├── UnknownArgumentError … and a TypeError: there is none of that name, or it came without its name
│   └── FrozenConfigError … and an AttributeError: one was assigned to, once it was made
├── ModelError            the model description breaks a rule
│   └── TowerRuleError    … of tower functions
├── RestoreError          values to restore do not fit the graph's variables
├── TraceError            a file is no trace, or traces are of different clocks
└── PredictorInputError   … and a TypeError: a predictor does not take what it is given
```
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "EndOfInputError",
    "EnvironmentStepError",
    "ExportError",
    "FrozenConfigError",
    "LogDirTakenError",
    "ModelError",
    "PredictorInputError",
    "PredictorProcessError",
    "RestoreError",
    "TowerRuleError",
    "TraceError",
    "TrainerStateError",
    "UnknownArgumentError",
]


class TrainerStateError(RuntimeError):
    """A trainer's method was called before or after the time when it makes sense."""


class EndOfInputError(RuntimeError):
    """The input of a training ended before the training did."""


class EnvironmentStepError(RuntimeError):
    """An environment returned what cannot be; the message names it and the step."""


class PredictorProcessError(RuntimeError):
    """A process that predicts died, or failed beyond what can be sent; the message says which and how."""


class ExportError(RuntimeError):
    """Inputs and outputs to export do not fit together, or a format cannot express the model."""


class ConfigError(ValueError):
    """Arguments of `TrainConfig` are missing, or contradict each other or the trainer."""


class LogDirTakenError(ConfigError):
    """The log directory, or the directory of a saver, is used by another run; the message names that."""


class FrozenConfigError(ConfigError, AttributeError):
    """An argument of a configuration was assigned once the configuration was made."""


class UnknownArgumentError(ConfigError, TypeError):
    """A configuration was made with an argument that it has not, or with one that was not named."""


class ModelError(ValueError):
    """A `ModelDesc` returned something a trainer cannot train."""


class TowerRuleError(ModelError):
    """A tower function broke a rule that replication relies on; the message names variable and rule."""


class RestoreError(ValueError):
    """Values to restore do not fit the variables; the message lists the differences."""


class TraceError(ValueError):
    """A file is no trace that can be put together with others; the message names it, and what is wrong."""


class PredictorInputError(ValueError, TypeError):
    """A predictor received another number of arrays than it takes, or one of a wrong shape or type."""
