"""The errors of trainers, also of training in several processes."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ClusterError",
    "ConfigError",
    "EndOfInputError",
    "EnvironmentStepError",
    "ExportError",
    "FrozenConfigError",
    "LaunchError",
    "LogDirTakenError",
    "MissingExtraError",
    "ModelError",
    "PeerLostError",
    "PredictorInputError",
    "PredictorProcessError",
    "RanksDifferError",
    "RendezvousError",
    "RestoreError",
    "TowerRuleError",
    "TraceError",
    "TrainerStateError",
    "UnknownArgumentError",
    "describe_error",
    "enumerate_names",
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

    @classmethod
    def _of_replicas(cls, difference: str) -> TowerRuleError:
        """Returns the error for towers that differ."""
        return cls(f"{difference}. A tower function must build the same replica each time.")


class RestoreError(ValueError):
    """Values to restore do not match the variables; the message lists the differences."""


class TraceError(ValueError):
    """A file is not a trace, or cannot be merged with others; the message names the file and the reason."""


class PredictorInputError(ValueError, TypeError):
    """A predictor received a wrong number of arrays, or an array of a wrong shape or dtype."""


_MOST_NAMES = 10


class ClusterError(ValueError):
    """The description of the cluster is missing or inconsistent."""


class RanksDifferError(ValueError):
    """The processes do not train the same model and data; the message names the rank and the difference."""


class RendezvousError(ConnectionError):
    """Some processes did not connect in time; the message names them."""


class PeerLostError(ConnectionError):
    """Another process of the training died, stopped responding or failed.

    Attributes:
        rank: the rank of that process; None if it is not known.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank


class LaunchError(RuntimeError):
    """Launched processes failed, and no restart is left."""


class MissingExtraError(ImportError):
    """An optional package is not installed."""

    @classmethod
    def of(cls, extra: str, error: ImportError) -> MissingExtraError:
        """Makes the error for one extra of this wheel, with the command that installs it."""
        return cls(
            f"{error.name or extra} cannot be imported ({error}). It comes with an extra: "
            f'pip install "towerpack-trainers[{extra}]".',
            name=error.name,
        )


def describe_error(error: BaseException) -> str:
    """Returns the type and text of an exception in one line of at most about 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def enumerate_names(names: Iterable[str]) -> str:
    """Joins the first names in one line, followed by the number of the others.

    Example:
        >>> enumerate_names(["rank 1", "rank 2"])
        'rank 1, rank 2'
    """
    first, rest = (every := list(names))[:_MOST_NAMES], every[_MOST_NAMES:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")
