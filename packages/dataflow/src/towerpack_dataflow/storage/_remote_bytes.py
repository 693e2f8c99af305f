"""Files in object stores, on web servers, and in whatever else fsspec knows; read by ranges of bytes."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, final

from .._errors import ArgumentError, StorageError, extra
from ._printable_url import printable, without_secrets
from ._stored_file import StoredBytes

__all__ = ["remote_bytes"]

_OF_OBSTORE = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https")
_PATIENCE = 60.0  # seconds for which a request is repeated
_REQUEST = 30  # seconds for one
_FIRST_PAUSE = 0.1

Result = TypeVar("Result")


def remote_bytes(url: str) -> StoredBytes:
    """Opens a file that is not local.

    Raises:
        ArgumentError: no library knows the URL's scheme.
        FileNotFoundError: there is no such file.
        ImportError: the library is not installed.
        PermissionError: the server refuses.
        StorageError: the file cannot be reached.
    """
    if url.partition("://")[0].lower() in _OF_OBSTORE:
        return _StoreBytes(url)
    return _FileSystemBytes(url)


@final
class _StoreBytes:
    """An object, by obstore, which repeats failed requests by itself."""

    def __init__(self, url: str) -> None:
        self._name, self._url = printable(url), url
        with extra("s3", f"reading {self._name}"):
            import obstore
        self._obstore = obstore
        self._signed = "?" in url  # then all of it is one request's address
        folder, _, key = url.rpartition("/")
        self._key = "" if self._signed else key
        self._store = _store(url if self._signed else folder)
        head = self._asked(self._head)
        self.size = int(head["size"])
        self._tag = head["e_tag"]
        self.version = str(self._tag or f"{self.size}-{head['last_modified'].isoformat()}")

    def read(self, offset: int, size: int) -> memoryview:
        options: dict[str, Any] = {"range": (offset, offset + size)}
        if self._tag is not None:
            options["if_match"] = self._tag
        content = self._asked(lambda: self._obstore.get(self._store, self._key, options=options).bytes())
        if len(content) != size:
            raise StorageError(
                f"{self._name}: the server sent {len(content)} bytes, and {size} were asked for"
            )
        return memoryview(content)

    def check(self) -> None:
        """Does nothing: each read is of the version that was opened."""

    def close(self) -> None:
        pass

    def _head(self) -> Any:
        if self._signed:  # for one method, which is GET
            return self._obstore.get(self._store, self._key, options={"range": (0, 1)}).meta
        return self._obstore.head(self._store, self._key)

    def _asked(self, ask: Callable[[], Result]) -> Result:
        if _first_process() != os.getpid():
            raise StorageError(
                f"{self._name} cannot be read in this process: it is a fork of one that has read such files, "
                f'and has none of the threads that do. Use start_method="spawn", or threads'
            )
        errors = self._obstore.exceptions
        try:
            return ask()
        except errors.PreconditionError:
            raise StorageError(f"{self._name} has changed since it was opened; begin the pass anew") from None
        except FileNotFoundError:
            raise FileNotFoundError(2, os.strerror(2), self._name) from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise PermissionError(13, f"cannot be read: {self._reason(error)}", self._name) from None
        except (errors.BaseError, OSError) as error:
            raise StorageError(f"{self._name} cannot be read: {self._reason(error)}") from None

    def _reason(self, error: Exception) -> str:
        return without_secrets(str(error).partition("\n")[0], self._url)


@functools.cache
def _first_process() -> int:
    """Returns the process in which obstore has started its threads, and that of all forks of it."""
    return os.getpid()


@functools.cache
def _store(folder: str) -> Any:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", ""))
    plain = folder.startswith("http://") or endpoint.startswith("http://")
    from obstore.store import from_url

    return from_url(
        folder,
        client_options={"timeout": f"{_REQUEST}s", "allow_http": plain},
        retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=_PATIENCE)},
    )


@final
class _FileSystemBytes:
    """A file of one of fsspec's file systems."""

    def __init__(self, url: str) -> None:
        self._name, self._url = printable(url), url
        with extra("fsspec", f"reading {self._name}"):
            import fsspec
        try:
            self._system, self._path = fsspec.core.url_to_fs(url)
        except ValueError as error:
            raise ArgumentError(f"{self._name}: {without_secrets(str(error), url)}") from None
        self.size, self.version = self._facts()

    def read(self, offset: int, size: int) -> memoryview:
        content = self._repeated(lambda: self._system.cat_file(self._path, start=offset, end=offset + size))
        if len(content) != size:
            raise StorageError(
                f"{self._name}: {len(content)} bytes came, and {size} were asked for; it has changed"
            )
        return memoryview(content)

    def check(self) -> None:
        """Does nothing: each read is of the version that was opened."""

    def close(self) -> None:
        pass

    def _facts(self) -> tuple[int, str]:
        facts = self._repeated(lambda: self._system.info(self._path))
        size = facts.get("size")
        if size is None:
            raise StorageError(f"{self._name}: its file system does not say how large it is")
        return int(size), str(self._system.ukey(self._path))

    def _repeated(self, ask: Callable[[], Result]) -> Result:
        end, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
        while True:
            try:
                return ask()
            except FileNotFoundError:
                raise FileNotFoundError(2, os.strerror(2), self._name) from None
            except PermissionError:
                raise PermissionError(13, os.strerror(13), self._name) from None
            except OSError as error:
                if time.monotonic() + pause > end:
                    reason = without_secrets(str(error), self._url)
                    raise StorageError(f"{self._name} cannot be read: {reason}") from None
                time.sleep(pause)
                pause *= 2
