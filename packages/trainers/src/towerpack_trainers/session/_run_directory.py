"""The directory of a run's files: an earlier run in it is moved aside, never mixed in."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import final

from .._errors import ConfigError

__all__ = ["RunDirectory"]

_log = logging.getLogger("towerpack_trainers")

# What the files of a run are called; anything else in the directory is the user's.
_RUN_FILES = ("latest", "stats.jsonl", "events.out.tfevents.*", "model-*")


@final
class RunDirectory:
    """The directory of one run's files; for a rehearsal, one that is removed when the rehearsal ends.

    Enter it for as long as the run lasts.

    Args:
        log_dir: where the files belong; None for no files.
        rehearsal: whether the run is to be forgotten.
    """

    def __init__(self, log_dir: Path | None, rehearsal: bool = False) -> None:
        self.path = log_dir
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if rehearsal and log_dir is not None:
            self._temporary = tempfile.TemporaryDirectory(prefix="towerpack-rehearsal-")
            self.path = Path(self._temporary.name)

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def prepare(self, resumed: Path | None = None) -> None:
        """Makes the directory. An earlier run in it is moved to `<log_dir>.1` (or .2, …).

        Args:
            resumed: the checkpoint that this run goes on from. A run of which that is one stays in its place.

        Raises:
            ConfigError: it cannot be a directory of this run.
        """
        if self.path is None:
            return
        resuming = resumed is not None and resumed.resolve().is_relative_to(self.path.resolve())
        if not resuming and any(next(self.path.glob(pattern), None) for pattern in _RUN_FILES):
            _move_aside(self.path)
        _make_writable(self.path)


def _make_writable(log_dir: Path) -> None:
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"log_dir={str(log_dir)!r} cannot be made: {error}. Give another directory."
        ) from error
    if not os.access(log_dir, os.W_OK | os.X_OK):
        raise ConfigError(f"log_dir={str(log_dir)!r} cannot be written to. Give another directory.")


def _move_aside(log_dir: Path) -> None:
    if Path.cwd().is_relative_to(log_dir.resolve()):
        raise ConfigError(
            f"log_dir={str(log_dir)!r} holds an earlier run, which cannot be moved aside: this process "
            'works in that directory. Give one of its own, or resume="auto".'
        )
    aside = _free_name(log_dir)
    log_dir.rename(aside)
    _log.info("%s held an earlier run, which is now in %s.", log_dir, aside)


def _free_name(log_dir: Path) -> Path:
    number = 1
    while (candidate := log_dir.with_name(f"{log_dir.name}.{number}")).exists():
        number += 1
    return candidate
