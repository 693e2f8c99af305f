"""The names of checkpoints and of the files in them."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from pathlib import Path

__all__ = [
    "CALLBACK_FILES",
    "LATEST",
    "MANIFEST",
    "STATE",
    "VARIABLES",
    "all_checkpoints",
    "checkpoint_name",
    "discard",
    "hidden_name",
    "is_complete",
    "is_named_by_step",
    "is_unfinished",
    "remove_unfinished",
    "step_of",
]

_log = logging.getLogger("towerpack_callbacks")

LATEST = "latest"
MANIFEST = "manifest.json"
STATE = "state.json"
VARIABLES = "variables"
CALLBACK_FILES = "callbacks"

# Hidden, so that a partly written directory is never mistaken for a checkpoint.
_ASIDE_PREFIX = ".writing-"

_NAME = re.compile(r"model-\d+")


def checkpoint_name(global_step: int) -> str:
    """Returns the directory name of the checkpoint of a step."""
    return f"model-{global_step}"


def hidden_name(path: Path) -> Path:
    """Returns a unique hidden name next to `path`, for unfinished or discarded directories."""
    return path.with_name(f"{_ASIDE_PREFIX}{path.name}-{os.getpid()}-{time.monotonic_ns()}")


def is_unfinished(path: Path) -> bool:
    """Returns whether `path` has a hidden name: a checkpoint in progress, or the remains of a killed run."""
    return path.name.startswith(_ASIDE_PREFIX)


def remove_unfinished(directory: Path) -> None:
    """Removes all hidden directories that a killed run has left.

    Raises:
        OSError: a directory could not be removed.
    """
    for leftover in directory.glob(f"{_ASIDE_PREFIX}*"):
        if leftover.is_symlink():
            leftover.unlink()
        else:
            shutil.rmtree(leftover)


def is_complete(path: Path) -> bool:
    """Returns whether `path` is a complete checkpoint: it has a manifest, the last file to be written."""
    return (path / MANIFEST).is_file()


def all_checkpoints(directory: str | Path) -> list[Path]:
    """Lists the complete checkpoints `model-<step>` in a directory, oldest step first."""
    named = filter(is_named_by_step, Path(directory).glob("model-*"))
    return sorted(filter(is_complete, named), key=step_of)


def is_named_by_step(path: Path) -> bool:
    """Returns whether the name is `model-<step>`."""
    return _NAME.fullmatch(path.name) is not None


def step_of(checkpoint: Path) -> int:
    """Returns the step in the name of a checkpoint `model-<step>`."""
    return int(checkpoint.name.removeprefix("model-"))


def discard(path: Path) -> None:
    """Removes an old checkpoint: first its name, in one step, then its files. A failure is logged.

    A failure loses no data; if the disk is the cause, the next write also fails.
    """
    try:
        # Not into a new directory, which a full disk could not hold.
        hidden = hidden_name(path)
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        _log.warning("The old checkpoint %s could not be removed: %s.", path, error)
