"""The names and files of checkpoint directories."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
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
    "disk_usage",
    "files_below",
    "hidden_name",
    "is_complete",
    "is_named_by_step",
    "is_shared",
    "is_unfinished",
    "readable_size",
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


_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def files_below(directory: Path) -> Iterator[Path]:
    """Yields all files and symbolic links below a directory, sorted by name.

    Files that disappear during the search are left out: a running training may remove files.

    Raises:
        OSError: the directory cannot be read.
    """
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(Path(entry.path))
            else:
                yield Path(entry.path)


def is_shared(file: Path) -> bool:
    """Returns whether a file is a hard link with several names, written by another owner.

    Its writer is responsible for its content, which may be much larger than the new part of a checkpoint.
    Therefore it is neither flushed to the disk nor given a checksum here.
    """
    return file.stat().st_nlink > 1


def disk_usage(directories: Iterable[Path]) -> int:
    """Returns the total disk usage of directories in bytes; a file with several names counts once."""
    held = {}
    for directory in directories:
        for file in files_below(directory):
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                held[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(held.values())


def readable_size(size: float) -> str:
    """Formats a number of bytes, such as "7.31 GB"."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
