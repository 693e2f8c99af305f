"""`open_url`: access to the bytes of local and remote files."""

from __future__ import annotations

import os
import weakref
from typing import final

from .._errors import StorageError
from ._atomic_file import read_at
from ._printable_url import URL, as_url, is_local, lasting_url
from ._remote_bytes import remote_bytes
from ._stored_file import StoredFile
from ._url_cache import UrlCache

__all__ = ["local_path", "open_url"]


def open_url(url: URL, cache: UrlCache | None = None) -> StoredFile:
    """Opens a file on a disk, on a web server or in an object store.

    Where credentials are needed, the library reads them from the usual places: environment variables such as
    `AWS_ACCESS_KEY_ID`, or files in the home directory.

    Args:
        url: a path; `file://`; `http://`, `https://`, `s3://`, `gs://` or `az://` (by obstore, extra `s3`);
            or any other file system of fsspec (extra `fsspec`). cache: a `UrlCache` for the content of remote
            files.

    Raises:
        ArgumentError: `url` is empty, its scheme is unknown, or the library cannot request its name.
        ArgumentTypeError: `url` is neither a string nor a path.
        FileNotFoundError: there is no such file.
        ImportError: the library that reads such URLs is not installed.
        PermissionError: the file may not be read.
        StorageError: the file cannot be reached; or this process is a fork of one that has read through
            obstore; its threads do not exist in a fork.
        OSError: a local file cannot be opened.

    Example:
        >>> with open_url(__file__) as file:
        ...     bytes(file.read(0, 3))
        b'\"\"\"'
    """
    text = as_url("url", url)
    if is_local(text):
        return StoredFile(text, _LocalBytes(text), _open_same)
    source = remote_bytes(text)
    kept = source if cache is None else cache.over(lasting_url(text), source)
    return StoredFile(text, kept, _open_same)


def local_path(url: URL, cache: UrlCache | None = None) -> str:
    """Returns the path of a file, for libraries that open paths.

    Args:
        url: as in `open_url`. A remote file is downloaded completely.
        cache: the `UrlCache` for the download; by default, one in `$TOWERPACK_CACHE`, or in
            `~/.cache/towerpack`.

    Raises:
        FileNotFoundError: there is no such file.
        StorageError: the file cannot be reached, is larger than the cache's limit, or cannot be written to
            the cache.
    """
    text = as_url("url", url)
    if is_local(text):
        if not os.path.exists(text):
            raise FileNotFoundError(2, os.strerror(2), text)
        return text
    with open_url(text) as file:
        return (UrlCache() if cache is None else cache).whole(file)


def _open_same(url: str, version: str, cache: UrlCache | None) -> StoredFile:
    file = open_url(url, cache)
    if file.version != version:
        file.close()
        raise StorageError(
            f"{file.name} has changed since it was opened: its version was {version}, and is {file.version} "
            "now. Restart the pass"
        )
    return file


@final
class _LocalBytes:
    """A local file, read without a map: reading a truncated file then does not kill the process.

    Raises:
        OSError: the file cannot be opened.
    """

    lasting = True

    def __init__(self, path: str) -> None:
        """Opens the file."""
        self._path = path
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with this object
        self._close = weakref.finalize(self, file.close)
        self.descriptor: int | None = file.fileno()
        stat = os.fstat(file.fileno())
        self._modified = stat.st_mtime_ns
        self.size = stat.st_size
        self.version = f"{stat.st_size}-{stat.st_mtime_ns}"

    def read(self, offset: int, size: int) -> memoryview:
        """Returns a copy of a range of bytes."""
        self.check()
        parts = []
        while size:
            part = read_at(self._open(), size, offset)  # at most 2 GiB
            if not part:
                self.check()
                raise StorageError(f"{self._path} ends before byte {offset + size}; create the flow again")
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))

    def check(self) -> None:
        """Checks that the file has not been truncated or written to since it was opened."""
        now = os.fstat(self._open())
        if now.st_size < self.size:
            raise StorageError(f"{self._path} was truncated to {now.st_size} bytes while it was being read")
        if now.st_mtime_ns != self._modified:
            raise StorageError(
                f"{self._path} was written to while it was being read; create the flow again. To change a "
                "file that is being read, write another one and rename it"
            )

    def close(self) -> None:
        """Closes the file."""
        self._close()
        self.descriptor = None

    def _open(self) -> int:
        if self.descriptor is None:
            raise StorageError(f"{self._path} was closed; open it again")
        return self.descriptor
