"""The errors of trainers.

```
RuntimeError
├── TrainerStateError     a method was called at the wrong time
├── EndOfInputError       the training input ended before the last step
├── EnvironmentStepError  an environment returned an invalid value
├── ExportError           a model cannot be exported as requested
└── PredictorProcessError a prediction process died or failed
ValueError
├── ConfigError           arguments of TrainConfig are wrong, or contradict each other
│   ├── LogDirTakenError  … another run uses the directory
│   ├── UnknownArgumentError … and a TypeError: an unknown argument, or a positional one
│   └── FrozenConfigError … and an AttributeError: an argument was assigned after construction
├── ModelError            the model description breaks a rule
│   └── TowerRuleError    … a rule of tower functions
├── RestoreError          values to restore do not match the graph's variables
├── TraceError            a file is not a trace, or traces have different clocks
└── PredictorInputError   … and a TypeError: a predictor received unsuitable input
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
    """A trainer's method was called too early or too late."""


class EndOfInputError(RuntimeError):
    """The training input ended before the last step."""


class EnvironmentStepError(RuntimeError):
    """An environment returned an invalid value; the message names the environment and the step."""


class PredictorProcessError(RuntimeError):
    """A prediction process died, or failed with an error that cannot be sent; the message names both."""


class ExportError(RuntimeError):
    """The inputs and outputs to export do not match, or a format cannot express the model."""


class ConfigError(ValueError):
    """Arguments of `TrainConfig` are missing, or contradict each other or the trainer."""


class LogDirTakenError(ConfigError):
    """Another run uses the log directory or a saver's directory; the message names the run."""


class FrozenConfigError(ConfigError, AttributeError):
    """An argument of a configuration was assigned after construction."""


class UnknownArgumentError(ConfigError, TypeError):
    """A configuration received an unknown argument, or a positional one."""


class ModelError(ValueError):
    """A `ModelDesc` returned a value that a trainer cannot train."""


class TowerRuleError(ModelError):
    """A tower function broke a rule of replication; the message names the variable and the rule."""


class RestoreError(ValueError):
    """Values to restore do not match the variables; the message lists the differences."""


class TraceError(ValueError):
    """A file is not a trace, or cannot be merged with others; the message names the file and the reason."""


class PredictorInputError(ValueError, TypeError):
    """A predictor received a wrong number of arrays, or an array of a wrong shape or dtype."""
