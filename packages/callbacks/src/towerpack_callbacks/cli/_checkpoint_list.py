"""`checkpoint ls`: lists checkpoints, one per line."""

from __future__ import annotations

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .._errors import CheckpointError
from ..checkpoint.format import (
    disk_usage,
    files_below,
    is_complete,
    is_unfinished,
    pointers_in,
    readable_size,
    wrong_file,
)
from ._command_line import CommandError, align

__all__ = ["list_checkpoints"]

_STEP = re.compile(r"-(\d+)$")
_MODEL = re.compile(r"model-\d+")


def list_checkpoints(log_dir: Path, verify: bool) -> list[str]:
    """Returns the lines of the listing, the headings first.

    Args:
        log_dir: a log directory, or one checkpoint.
        verify: whether to also read the files.

    Raises:
        CommandError: the directory does not exist, or contains no checkpoint.
    """
    if not log_dir.is_dir():
        raise CommandError(f"there is no directory {log_dir}")
    found = [log_dir] if is_complete(log_dir) else sorted(_candidates(log_dir), key=_order)
    if not found:
        raise CommandError(f"{log_dir} contains no checkpoint; expected directories such as model-1000")
    marks = _marks(found[0].parent)
    headings = ["checkpoint", "step", "size", "written", "state", "marks"]
    rows = [
        [
            path.name,
            _step(path),
            readable_size(sum(_sizes([path]).values())),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime)),
            _state(path, verify),
            ", ".join(sorted(marks[path.resolve()])),
        ]
        for path in found
    ]
    return [*align([headings, *rows], right=(1, 2)), *_together(found)]


def _candidates(log_dir: Path) -> Iterator[Path]:
    """Finds checkpoints under any name, including unfinished ones."""
    for path in log_dir.iterdir():
        if path.is_dir() and not path.is_symlink():
            named_like_one = _MODEL.fullmatch(path.name) or is_unfinished(path)
            if named_like_one or is_complete(path):
                yield path


def _order(path: Path) -> tuple[bool, int, str]:
    step = _step(path)
    return is_unfinished(path), int(step) if step else -1, path.name


def _step(path: Path) -> str:
    match = _STEP.search(path.resolve().name)
    return match[1] if match and not is_unfinished(path) else ""


def _marks(log_dir: Path) -> dict[Path, list[str]]:
    """Returns the pointers to each checkpoint: `latest`, `max-<statistic>`, and those of users."""
    marks = defaultdict(list)
    for path, target in pointers_in(log_dir).items():
        marks[target].append(path.name)
    return marks


def _state(path: Path, verify: bool) -> str:
    if is_unfinished(path):
        return "unfinished"
    wrong = wrong_file(path)
    if wrong is not None:
        return f"incomplete: {wrong}"
    if not verify:
        return "complete"
    from ..checkpoint import read_checkpoint  # with TensorFlow, which takes seconds to import

    try:
        read_checkpoint(path)
    except CheckpointError:
        return "damaged"
    return "verified"


def _sizes(paths: Iterable[Path]) -> dict[tuple[int, int], int]:
    """Returns the sizes of all files in directories; files with several names count once."""
    sizes = {}
    for path in paths:
        for file in files_below(path):
            # A running training may remove a file between its listing and this call.
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sizes


def _together(found: Sequence[Path]) -> Iterator[str]:
    """Yields the total disk usage of checkpoints if it is less than the sum of their sizes."""
    if len(_sizes(found)) < sum(len(_sizes([path])) for path in found):
        yield f"{readable_size(disk_usage(found))} on the disk in total, since some share files"
