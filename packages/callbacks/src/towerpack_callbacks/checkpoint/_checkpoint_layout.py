"""Where checkpoints are and what they are called."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

__all__ = [
    "LATEST",
    "MANIFEST",
    "STATE",
    "VARIABLES",
    "all_checkpoints",
    "aside_prefix",
    "checkpoint_name",
    "hidden_name",
    "is_complete",
    "latest_checkpoint",
    "linked",
    "step_of",
]

LATEST = "latest"
MANIFEST = "manifest.json"
STATE = "state.json"
VARIABLES = "variables"

# Hidden, so that a half-written one is never taken for a checkpoint.
aside_prefix = ".writing-"

_NAME = re.compile(r"model-\d+")


def checkpoint_name(global_step: int) -> str:
    """The directory name of the checkpoint of a step."""
    return f"model-{global_step}"


def hidden_name(path: Path) -> Path:
    """A name beside `path`, for what is not finished or no longer wanted; no other call returns it."""
    return path.with_name(f"{aside_prefix}{path.name}-{os.getpid()}-{time.monotonic_ns()}")


def is_complete(path: Path) -> bool:
    """Whether `path` is a checkpoint; its manifest is the last file written before it gets its name."""
    return (path / MANIFEST).is_file()


def all_checkpoints(directory: str | Path) -> list[Path]:
    """The complete checkpoints `model-<step>` in a directory, oldest step first."""
    named = [path for path in Path(directory).glob("model-*") if _NAME.fullmatch(path.name)]
    return sorted(filter(is_complete, named), key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step in the name of a checkpoint `model-<step>`."""
    return int(checkpoint.name.removeprefix("model-"))


def latest_checkpoint(directory: str | Path) -> Path | None:
    """The checkpoint to go on from, or None if there is none."""
    pointer = Path(directory) / LATEST
    if is_complete(pointer):
        return pointer.resolve()
    checkpoints = all_checkpoints(directory)
    return checkpoints[-1] if checkpoints else None


def linked(directory: Path) -> set[Path]:
    """What symbolic links in a directory lead to: the latest checkpoint, the best, what a user has named."""
    return {path.resolve() for path in directory.iterdir() if path.is_symlink()}
