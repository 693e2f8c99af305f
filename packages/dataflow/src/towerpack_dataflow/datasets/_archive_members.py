"""Files in an archive of a data set, read without unpacking it."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from .._errors import FormatError

__all__ = ["read_members"]


def read_members(path: Path, names: Sequence[str], hint: str) -> dict[str, bytes]:
    """Reads files of a tar archive, in one pass over it.

    Args:
        path: path of the archive, compressed or not.
        names: names of the members; those in the archive may start with `./`.
        hint: a likely reason for a missing member.

    Raises:
        FormatError: the archive is truncated or damaged, or has no such member.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                file = archive.extractfile(member) if name in names else None
                if file is not None:
                    found[name] = file.read()
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(
            f"{path} is truncated or damaged ({error}); delete it to download it again"
        ) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise FormatError(f"{path} has no {', '.join(missing)}; {hint}")
    return found
