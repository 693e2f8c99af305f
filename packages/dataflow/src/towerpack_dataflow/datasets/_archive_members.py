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
        path: of the archive, packed or not.
        names: of the members; those of the archive may begin with `./`.
        hint: what to think of when one is missing.

    Raises:
        FormatError: the archive is cut off or damaged, or has no such member.
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
            f"{path} is cut off or damaged ({error}); delete it, and it will be downloaded"
        ) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise FormatError(f"{path} has no {', '.join(missing)}; {hint}")
    return found
