"""The directory of a run's files: an earlier run in it is moved aside, never mixed in or asked about."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from .._errors import ConfigError

__all__ = ["prepare_log_dir"]

_log = logging.getLogger("towerpack_trainers")

# What the files of a run are called; anything else in the directory is the user's.
_RUN_FILES = ("latest", "stats.jsonl", "events.out.tfevents.*", "model-*")


def prepare_log_dir(log_dir: Path, resuming: bool) -> None:
    """Makes the directory; unless the run is resumed, moves an earlier run to `<log_dir>.1` (or .2, …).

    Raises:
        ConfigError: it cannot be a directory of this run.
    """
    if not resuming and any(next(log_dir.glob(pattern), None) for pattern in _RUN_FILES):
        _move_aside(log_dir)
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
