"""Publishes a finished checkpoint: the links to it, and its removal, each in one atomic step."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from ..._errors import CheckpointWriteError
from ...writing import atomic_write, sync
from ._checkpoint_layout import hidden_name

__all__ = ["discard", "point_to"]

_log = logging.getLogger("towerpack_callbacks")


def point_to(pointer: Path, target: Path) -> None:
    """Makes the symbolic link `pointer` lead to `target`, in the same directory, in one atomic step.

    Raises:
        CheckpointWriteError: the system refused; the link leads where it did.
    """
    try:
        with atomic_write(pointer, hidden_name(pointer)) as aside:
            aside.symlink_to(target.name)
        sync(pointer.parent)
    except OSError as error:
        raise CheckpointWriteError(
            f"The link {pointer} could not be set to {target.name}: {error}. The checkpoints are whole. "
            "Free space or fix the permissions of its directory, then resume."
        ) from error


def discard(path: Path) -> None:
    """Removes an old checkpoint: first its name, at once, then its files. A failure is logged.

    Nothing is lost by a failure; if the disk is the reason, the next write fails, too.
    """
    try:
        # Not into a new directory: on a full disk there is no room for one.
        hidden = hidden_name(path)
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        _log.warning("The old checkpoint %s could not be removed: %s.", path, error)
