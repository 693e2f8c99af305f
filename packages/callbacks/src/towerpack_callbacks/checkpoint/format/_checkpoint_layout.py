"""The names of checkpoints and of the files in them."""

from __future__ import annotations

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
    "hidden_name",
    "is_complete",
    "is_unfinished",
    "latest_checkpoint",
    "linked",
    "remove_unfinished",
    "step_of",
]

LATEST = "latest"
MANIFEST = "manifest.json"
STATE = "state.json"
VARIABLES = "variables"
CALLBACK_FILES = "callbacks"

# Hidden, so that a half-written one is never taken for a checkpoint.
_ASIDE_PREFIX = ".writing-"

_NAME = re.compile(r"model-\d+")


def checkpoint_name(global_step: int) -> str:
    """Returns the directory name of the checkpoint of a step."""
    return f"model-{global_step}"


def hidden_name(path: Path) -> Path:
    """Returns a name beside `path` for something unfinished or no longer needed; no other call returns it."""
    return path.with_name(f"{_ASIDE_PREFIX}{path.name}-{os.getpid()}-{time.monotonic_ns()}")


def is_unfinished(path: Path) -> bool:
    """Returns whether `path` has a hidden name: a checkpoint that is being written, or was left by a kill."""
    return path.name.startswith(_ASIDE_PREFIX)


def remove_unfinished(directory: Path) -> None:
    """Removes everything that a killed run has left under hidden names.

    Raises:
        OSError: a part of it could not be removed.
    """
    for leftover in directory.glob(f"{_ASIDE_PREFIX}*"):
        if leftover.is_symlink():
            leftover.unlink()
        else:
            shutil.rmtree(leftover)


def is_complete(path: Path) -> bool:
    """Returns whether `path` is a checkpoint: it has a manifest, which is the last file to be written."""
    return (path / MANIFEST).is_file()


def all_checkpoints(directory: str | Path) -> list[Path]:
    """Lists the complete checkpoints `model-<step>` in a directory, oldest step first."""
    named = [path for path in Path(directory).glob("model-*") if _NAME.fullmatch(path.name)]
    return sorted(filter(is_complete, named), key=step_of)


def step_of(checkpoint: Path) -> int:
    """Returns the step in the name of a checkpoint `model-<step>`."""
    return int(checkpoint.name.removeprefix("model-"))


def latest_checkpoint(directory: str | Path) -> Path | None:
    """Returns the checkpoint to go on from, or None if there is none."""
    pointer = Path(directory) / LATEST
    if is_complete(pointer):
        return pointer.resolve()
    checkpoints = all_checkpoints(directory)
    return checkpoints[-1] if checkpoints else None


def linked(directory: Path) -> set[Path]:
    """Returns the targets of a directory's symbolic links: the latest, the best, and those of users."""
    return {path.resolve() for path in directory.iterdir() if path.is_symlink()}
