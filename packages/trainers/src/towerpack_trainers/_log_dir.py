"""The directory of a run's files: an earlier run in it is moved aside, never mixed in or asked about."""

from __future__ import annotations

import logging
from pathlib import Path

__all__ = ["prepare_log_dir"]

_log = logging.getLogger("towerpack_trainers")

# What the files of a run are called; anything else in the directory is the user's.
_RUN_FILES = ("latest", "stats.jsonl", "events.out.tfevents.*", "model-*")


def prepare_log_dir(log_dir: Path, resuming: bool) -> None:
    """Makes the directory; unless the run is resumed, moves an earlier run to `<log_dir>.1` (or .2, …)."""
    if not resuming and any(next(log_dir.glob(pattern), None) for pattern in _RUN_FILES):
        aside = _free_name(log_dir)
        log_dir.rename(aside)
        _log.info("%s held an earlier run, which is now in %s.", log_dir, aside)
    log_dir.mkdir(parents=True, exist_ok=True)


def _free_name(log_dir: Path) -> Path:
    number = 1
    while (candidate := log_dir.with_name(f"{log_dir.name}.{number}")).exists():
        number += 1
    return candidate
