"""The errors of training in several processes.

```
ValueError
├── ClusterError        the description of the cluster is missing or inconsistent
└── RanksDifferError    the processes do not train the same model, or not for the same number of steps
ConnectionError
├── RendezvousError     the processes did not find each other
└── PeerLostError       a process died, stopped responding or failed; the message names it
RuntimeError
└── LaunchError         launched processes failed, and no restart is left
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
