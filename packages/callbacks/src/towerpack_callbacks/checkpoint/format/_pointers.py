"""Pointers to checkpoints: `latest`, those of the best ones, and links made by users.

A pointer is a symbolic link, or, on file systems without links, a text file with the checkpoint's name. A
copy of a log directory may contain a directory in place of a link (`scp -r`, `cp -rL`, object stores), which
becomes outdated when the run continues: then the steps decide instead of the name.

The commands on log directories and `towerpack train` use this file, so it is apart from the files that import
TensorFlow.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path

from ..._errors import CheckpointError, CheckpointWriteError
from ...writing._atomic_write import atomic_write, sync
from ...writing._line_file import free_name
from ._manifest import (
    LATEST,
    MANIFEST,
    STATE,
    all_checkpoints,
    checkpoint_name,
    discard,
    hidden_name,
    is_complete,
    is_named_by_step,
    read_json,
    step_of,
    wrong_file,
)

__all__ = ["latest_checkpoint", "linked", "point_to", "pointers_in", "target_of"]

_log = logging.getLogger("towerpack_callbacks")

_LONGEST_NAME = 255  # bytes
_WITH_STEP = re.compile(r".+-\d+")
_ONE_NAME = re.compile(r"[^./\0\r\n][^/\0\r\n]*")


def target_of(pointer: Path) -> Path | None:
    """Returns the target of a pointer; a copied directory is its own target. None if absent."""
    if is_complete(pointer):
        return pointer.resolve()
    named = _named_in(pointer)
    return named if named is not None and is_complete(named) else None


def _named_in(pointer: Path) -> Path | None:
    """Returns the path in a text file that replaces a link, or None.

    A file of another kind may grow during the read, so its size is no safe limit: only a bounded part is
    read.
    """
    try:
        if not pointer.is_file():
            return None
        with pointer.open("rb") as file:
            content = file.read(_LONGEST_NAME + 2)  # and one line end
        name = content.decode().strip()
    except (OSError, ValueError):
        return None
    if len(name.encode()) > _LONGEST_NAME or not _ONE_NAME.fullmatch(name):
        return None
    return pointer.parent.resolve() / name


def _is_copy(pointer: Path) -> bool:
    """Whether the pointer is a directory instead of a link."""
    return pointer.is_dir() and not pointer.is_symlink()


def latest_checkpoint(directory: str | Path) -> Path | None:
    """Returns the checkpoint to resume from, or None if the directory contains none.

    This is the target of `latest`. If `latest` is a copied directory, it may be older than the others: then
    the complete checkpoint with the highest step is returned.
    """
    pointer, there = Path(directory) / LATEST, all_checkpoints(directory)
    if not _is_copy(pointer):
        return target_of(pointer) or (there[-1] if there else None)
    steps = {_step_in(path): path for path in (pointer, *there) if is_complete(path)}
    whole = [step for step in steps if step is not None]
    return steps[max(whole)] if whole else steps.get(None)


def _step_in(checkpoint: Path) -> int | None:
    """Returns the step of a checkpoint; None if the checkpoint is incomplete."""
    wrong = wrong_file(checkpoint)
    if wrong is None:
        if is_named_by_step(checkpoint):
            return step_of(checkpoint)
        with contextlib.suppress(CheckpointError, KeyError, TypeError, ValueError):
            return int(read_json(checkpoint / STATE)["loop"]["global_step"])
        wrong = STATE
    _log.warning("The checkpoint %s is incomplete: %s is missing or damaged.", checkpoint, wrong)
    return None


def pointers_in(directory: Path) -> dict[Path, Path]:
    """Returns the pointers in a directory with their target checkpoints."""
    found = ((path, _stands_for(path)) for path in directory.iterdir())
    return {path: target for path, target in found if target is not None}


def linked(directory: Path) -> set[Path]:
    """Returns the targets of all pointers in a directory: the latest, the best, and those of users."""
    return set(pointers_in(directory).values())


def _stands_for(path: Path) -> Path | None:
    if path.is_symlink():
        return path.resolve()
    if not path.is_dir():
        return target_of(path)
    copied = is_complete(path) and not _WITH_STEP.fullmatch(path.name)
    return next((twin.resolve() for twin in _twins(path)), None) if copied else None


def _twins(copy: Path) -> list[Path]:
    """Lists the checkpoints equal to a copied directory, preferring those that its name usually points to.

    Their manifests are equal, including the checksums.
    """
    content = (copy / MANIFEST).read_bytes()
    there = [path for path in copy.parent.glob("*-*") if _WITH_STEP.fullmatch(path.name) and path != copy]
    twins = [path for path in there if is_complete(path) and (path / MANIFEST).read_bytes() == content]
    return sorted(
        twins, key=lambda path: (not path.name.startswith(f"{copy.name}-"), not is_named_by_step(path))
    )


def point_to(pointer: Path, target: Path) -> None:
    """Makes `pointer` refer to `target`, in the same directory, in one atomic step.

    If `pointer` is a directory, the copy of a link, it is removed if its original checkpoint exists;
    otherwise it is renamed after its step or to another free name.

    Raises:
        CheckpointWriteError: the operating system reported an error; the pointer is unchanged.
    """
    try:
        if _is_copy(pointer):
            _make_way(pointer)
        with atomic_write(pointer, hidden_name(pointer)) as aside:
            _link(aside, target.name)
        sync(pointer.parent)
    except OSError as error:
        raise CheckpointWriteError(
            f"The link {pointer} could not be set to {target.name}: {error}. The checkpoints are complete. "
            "Free space or fix the permissions of its directory, then resume."
        ) from error


def _link(path: Path, name: str) -> None:
    try:
        path.symlink_to(name)
    except OSError:  # a file system without links; other errors also prevent writing a file
        path.write_text(f"{name}\n", encoding="utf-8")
        sync(path)


def _make_way(copy: Path) -> None:
    complete = is_complete(copy)
    if complete and _twins(copy):
        discard(copy)
        return
    step = _step_in(copy) if complete else None
    own = copy.with_name(checkpoint_name(step or 0) if copy.name == LATEST else f"{copy.name}-{step}")
    if step is None or os.path.lexists(own):
        own = free_name(copy)
    _log.warning("%s is a directory, expected a link; renamed it to %s.", copy, own.name)
    os.rename(copy, own)
