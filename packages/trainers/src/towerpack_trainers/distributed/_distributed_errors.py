"""The errors of training in several processes.

```
ValueError
├── ClusterError        the description of the cluster is missing or makes no sense
└── RanksDifferError    the processes do not train the same model, or not for the same number of steps
ConnectionError
├── RendezvousError     the processes did not find one another
└── PeerLostError       one of them died, fell silent or failed; the message names it
RuntimeError
└── LaunchError         launched processes failed for good
ImportError
└── MissingExtraError   an optional package is not installed; the message names the extra
```
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ClusterError",
    "LaunchError",
    "MissingExtraError",
    "PeerLostError",
    "RanksDifferError",
    "RendezvousError",
    "describe_error",
    "enumerate_names",
]

_MOST_NAMES = 10


class ClusterError(ValueError):
    """The description of the cluster is missing or inconsistent."""


class RanksDifferError(ValueError):
    """The processes do not train the same model and data; the message names rank and difference."""


class RendezvousError(ConnectionError):
    """Not all processes came together in time; the message names those that did not."""


class PeerLostError(ConnectionError):
    """Another process of the training died, fell silent or failed.

    Attributes:
        rank: its rank; None where that is not known.
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
        """The error for one extra of this wheel, with the command that installs it."""
        return cls(
            f"{error.name or extra} cannot be imported ({error}). It comes with an extra: "
            f'pip install "towerpack-trainers[{extra}]".',
            name=error.name,
        )


def describe_error(error: BaseException) -> str:
    """Returns an exception's type and text in one line of at most about 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def enumerate_names(names: Iterable[str]) -> str:
    """Returns some names in one line, and how many more there are.

    Example:
        >>> enumerate_names(["rank 1", "rank 2"])
        'rank 1, rank 2'
    """
    first, rest = (every := list(names))[:_MOST_NAMES], every[_MOST_NAMES:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")
