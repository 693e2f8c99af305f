"""The folders of callbacks' files in a checkpoint, for states that are too large for JSON."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from ..._errors import CheckpointWriteError
from ._checkpoint_layout import CALLBACK_FILES
from ._files_on_disk import files_below
from ._write_checkpoint import not_written

__all__ = ["add_files", "folder_of", "key_of"]

_LONGEST = 200  # of a name, in bytes; file systems take 255


def folder_of(key: str) -> str:
    """Returns the name of the folder for one callback's files, unique for each key.

    Args:
        key: the callback's key in the states of a checkpoint.

    Example:
        >>> folder_of("Memory('a/b')#2")
        'Memory%28%27a%2Fb%27%29#2'
    """
    name = quote(key, safe="#").replace(".", "%2E")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def key_of(folder: str) -> str:
    """Returns the key of a folder for display; a long key is truncated."""
    return unquote(folder)


def add_files(path: Path, aside: Path, save: Callable[[Path], None]) -> None:
    """Makes callbacks add their files to an unfinished checkpoint.

    Args:
        path: the final path of the checkpoint.
        aside: the directory in which it is created.
        save: called with the path of the parent directory of all callbacks' folders, which does not exist
            yet.

    Raises:
        CheckpointWriteError: the operating system reported an error, or a callback wrote something that is
            not a file.
    """
    directory = aside / CALLBACK_FILES
    try:
        save(directory)
        strange = next((file for file in files_below(directory) if not _is_plain(file)), None)
    except OSError as error:
        raise not_written(path, str(error)) from error
    if strange is not None:
        key = key_of(strange.relative_to(directory).parts[0])
        raise CheckpointWriteError(
            f"The checkpoint {path} could not be written: save_files() of the callback {key} wrote "
            f"{strange.name}, which is a symbolic link or not a file. Copy files into the directory, or "
            "link them with os.link."
        )


def _is_plain(file: Path) -> bool:
    return file.is_file() and not os.path.islink(file)
