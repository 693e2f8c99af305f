"""Replaces a file in one step, so that a reader sees the old one or the new one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_write", "sync"]


@contextlib.contextmanager
def atomic_write(path: Path, aside: Path | None = None, durable: bool = False) -> Iterator[Path]:
    """Gives the path of a new file, which replaces the one at `path` when the block ends without an error.

    After an error the new file is removed, and the one at `path` is as it was.

    Args:
        path: the file to replace, or to make.
        aside: where to write, in the same directory; None: `.<name>.writing`.
        durable: flush the content to the disk before the file gets its name, so that a crash of the machine
            leaves one of the two, too.

    Raises:
        OSError: the file cannot be written or renamed.

    Example:
        ```python
        with atomic_write(Path("curves.html")) as aside:
            aside.write_text(page)
        ```
    """
    aside = aside or path.with_name(f".{path.name}.writing")
    try:
        yield aside
        if durable:
            sync(aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flushes a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
