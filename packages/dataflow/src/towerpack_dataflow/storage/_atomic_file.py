"""`create_file` and `create_path`: a file that others see when it is whole, and not before."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .._errors import ArgumentError
from ._printable_url import URL, as_url, is_local

__all__ = ["create_file", "create_path"]


@contextmanager
def create_file(path: URL) -> Iterator[IO[bytes]]:
    """Makes a file, or replaces one, at once: whoever reads it has the old one or the new one, whole.

    The bytes go to a file beside it, which reaches the disk and gets its name when the block ends, and is
    removed if the block ends by an error.

    Args:
        path: of a local file; missing folders are made.

    Raises:
        ArgumentError: `path` is the URL of a file that is not local.
        OSError: it cannot be written; an existing file is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with create_file(f"{folder}/data.bin") as file:
        ...         _ = file.write(b"all of it")
        ...     os.listdir(folder)
        ['data.bin']
    """
    text = as_url("path", path)
    if not is_local(text):
        raise ArgumentError(
            f"path={path!r}: expected a local path. Write it here, and copy it with the store's own tool"
        )
    target = Path(text)
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = _mode_of(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    # The system applies the umask to a new file. Python reads it only by setting it, for all threads at once.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextmanager
def create_path(target: Path) -> Iterator[str]:
    """Makes a file at once, as `create_file` does, for libraries that write paths.

    Args:
        target: of the file, in a folder that exists.

    Yields:
        the path to write, beside `target`. It is to be closed when the block ends.

    Raises:
        OSError: it cannot be written; an existing file is as it was.
    """
    parent = target.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".towerpack-", dir=parent) as folder:
        beside = os.path.join(folder, target.name)
        yield beside
        _sync(beside)
        os.replace(beside, target)
    _sync(parent)


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None
