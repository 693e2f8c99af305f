"""Files of data sets: their folders, downloads of missing ones, and members of archives."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

from .._errors import DatasetError, FormatError, extra
from ..storage._atomic_file import lock_file

__all__ = ["DatasetFile", "dataset_folder", "download", "read_members", "require"]

PathLike = str | os.PathLike[str]
_BLOCK = 2**20
_SILENCE = 30  # seconds without a byte after which a server counts as lost


@final
@dataclass(frozen=True)
class DatasetFile:
    """A file of a data set.

    Args:
        url: URL at its authors, or a mirror.
        md5: the published checksum, in hexadecimal.

    Example:
        >>> DatasetFile("https://example.org/digits/images.gz", "d41d8cd98f00b204e9800998ecf8427e").name
        'images.gz'
    """

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rsplit("/", 1)[1]


def dataset_folder(directory: PathLike | None, name: str) -> Path:
    """Returns the folder of a data set's files.

    Args:
        directory: the folder itself; by default, `name` in `$TOWERPACK_DATASETS`, or in
            `~/towerpack_datasets`.
        name: name of the data set.
    """
    if directory is not None:
        return Path(directory)
    return Path(os.environ.get("TOWERPACK_DATASETS", "~/towerpack_datasets")).expanduser() / name


def require(folder: Path, file: DatasetFile) -> Path:
    """Returns the path of a file in a folder; downloads it if it is missing.

    Raises:
        DatasetError: it is missing and cannot be downloaded.
    """
    path = folder / file.name
    return path if path.exists() else download(file.url, path, md5=file.md5)


def download(url: str, path: PathLike, md5: str) -> Path:
    """Downloads a file unless it exists, and shows the progress.

    Received data are stored next to the file, under its name with `.part`, until the download is complete and
    its checksum is correct; then the file gets its name. An interrupted download, even a killed one,
    continues where it stopped. If several processes request the same file, one downloads it, and the others
    wait.

    Args:
        url: URL over http or https.
        path: path of the file.
        md5: checksum of the file, in hexadecimal.

    Returns:
        the path.

    Raises:
        DatasetError: the server cannot be reached or is lost, or the checksum differs.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with open(part, "ab") as file:
        lock_file(file.fileno(), wait=True)
        if path.exists():  # another process has downloaded it
            return path
        _fetch(url, path, file)
        _verify(url, part, md5)
        os.fsync(file.fileno())
        os.replace(part, path)
    return path


def _fetch(url: str, path: Path, file: BinaryIO) -> None:
    # Here, since it loads the modules of HTTP, TLS and e-mail, which only a download needs.
    import urllib.error
    import urllib.request

    begun = os.fstat(file.fileno()).st_size
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
        with urllib.request.urlopen(request, timeout=_SILENCE) as answer:
            if answer.status != 206:  # the server starts from the beginning
                file.truncate(0)
                begun = 0
            _copy(answer, file, path, begun)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the server has no more bytes; the checksum decides
            raise _unreachable(url, path, f"the server replied {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise _unreachable(url, path, str(error)) from error


def _copy(answer: Any, file: BinaryIO, path: Path, begun: int) -> None:
    length = answer.headers.get("Content-Length")
    total = None if length is None else begun + int(length)
    with _progress(path.name, begun, total) as bar:
        while block := answer.read(_BLOCK):
            file.write(block)
            bar.update(len(block))
    file.flush()
    size = os.fstat(file.fileno()).st_size
    if total is not None and size < total:
        raise ConnectionError(f"the connection ended after {size} of {total} bytes")


def _unreachable(url: str, path: Path, why: str) -> DatasetError:
    return DatasetError(
        f"{path} is missing, and cannot be downloaded from {url}: {why}. Call again to continue the "
        f"download, or put the file there yourself"
    )


def _verify(url: str, part: Path, md5: str) -> None:
    with open(part, "rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        part.unlink()
        raise DatasetError(
            f"the file from {url} has the checksum (MD5) {found}, expected {md5}; it was deleted. "
            f"The file or the connection has changed: call again, or put the right file at "
            f"{part.with_suffix('')}"
        )


def _progress(name: str, begun: int, total: int | None) -> Any:
    with extra("datasets", "a download"):
        from tqdm import tqdm
    return tqdm(desc=name, initial=begun, total=total, unit="B", unit_scale=True, disable=None)


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
