"""Files and directories that appear complete or not at all, and never replace anything by accident."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from towerpack_callbacks.writing import atomic_write, replace_directory, sync

__all__ = ["new_directory", "new_file", "refuse_existing"]

_PARTS = {"saved_model.pb", "variables", "assets", "assets.extra", "fingerprint.pb", "keras_metadata.pb"}


@contextlib.contextmanager
def new_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yields the path of a file to write, which is renamed at the end of the block.

    Args:
        path: the final path.
        overwrite: whether an existing file may be replaced.

    Raises:
        FileExistsError: `path` exists, or is a directory.
        OSError: the file cannot be written.
    """
    refuse_existing(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, durable=True) as aside:
        yield aside


@contextlib.contextmanager
def new_directory(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yields the path of a directory to fill, which is renamed at the end of the block.

    Args:
        path: the final path.
        overwrite: whether an existing SavedModel may be replaced.

    Raises:
        FileExistsError: `path` exists, contains other files than those of a SavedModel, or is being written
            by another process.
        OSError: the directory cannot be written.
    """
    if path.exists() and not (overwrite and (path / "saved_model.pb").is_file()):
        raise FileExistsError(_existing(path, "a SavedModel" if overwrite else ""))
    if path.is_dir() and (others := sorted(set(os.listdir(path)) - _PARTS)):
        raise FileExistsError(
            f"{path} has {others[0]!r}, which is not part of a SavedModel and would be lost. Move it, or "
            "choose another path."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.writing")
    with _alone_in(aside, path):
        try:
            yield aside
            for part in [*aside.rglob("*"), aside]:
                sync(part)
            replace_directory(aside, path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


@contextlib.contextmanager
def _alone_in(aside: Path, path: Path) -> Iterator[None]:
    """Makes an empty directory, locked for the block; removes the files of a killed process in it."""
    aside.mkdir(exist_ok=True)
    descriptor = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileExistsError(
                f"{path} is being written by another process. Wait for it, or choose another path."
            ) from error
        for left in aside.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield
    finally:
        os.close(descriptor)


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Checks that a file may be made.

    Raises:
        FileExistsError: `path` exists, or is a directory.
    """
    if path.is_dir() or (path.exists() and not overwrite):
        raise FileExistsError(_existing(path, "a file" if overwrite else ""))


def _existing(path: Path, replaceable: str) -> str:
    if replaceable:
        return f"{path} exists and is not {replaceable}, so it is not replaced. Choose another path."
    return f"{path} exists. Choose another path, or allow overwriting (overwrite=True; --overwrite)."
