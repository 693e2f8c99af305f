"""Remote files in object stores, on web servers and in file systems of fsspec; read by byte ranges."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar, final

from .._errors import ArgumentError, StorageError, extra
from ._printable_url import is_web, printable, store_address, without_secrets
from ._stored_file import StoredBytes

__all__ = ["remote_bytes"]

_log = logging.getLogger("towerpack_dataflow")
_OF_OBSTORE = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https")
# Entries in the file information of fsspec's file systems: version-independent ones, and ones changed by
# reading.
_OF_ANY_FILE = ("name", "size", "type", "mode", "uid", "gid", "islink", "nlink", "perm", "unix.mode")
_CHANGES = ("time", "atime", "accessed", "nlink")
_PATIENCE = 60.0  # seconds over which a request is repeated
_REQUEST = 30  # seconds for one request
_FIRST_PAUSE = 0.1

Result = TypeVar("Result")


def remote_bytes(url: str) -> StoredBytes:
    """Opens a remote file.

    Raises:
        ArgumentError: the URL's scheme is unknown, or the library cannot request the file's name.
        FileNotFoundError: there is no such file.
        ImportError: the library is not installed.
        PermissionError: the server denies access.
        StorageError: the file cannot be reached.
    """
    if url.partition("://")[0].lower() in _OF_OBSTORE:
        return _StoreBytes(url)
    return _FileSystemBytes(url)


class _Facts(NamedTuple):
    """A server's information about a file; None for unknown values."""

    e_tag: str | None
    modified: str | None
    size: int

    @classmethod
    def of(cls, meta: Any) -> _Facts:
        """Reads the facts from an answer, in which the year 1970 stands for an unknown time."""
        modified = meta["last_modified"]
        known = modified.timestamp() != 0
        return cls(meta["e_tag"] or None, modified.isoformat() if known else None, int(meta["size"]))

    @property
    def is_strong(self) -> bool:
        """Whether the tag identifies exactly these bytes."""
        return self.e_tag is not None and not self.e_tag.startswith("W/")

    def text(self) -> str:
        """Returns the facts for a message."""
        return f"ETag {self.e_tag}, Last-Modified {self.modified}, {self.size} bytes"

    def agree(self, others: _Facts) -> bool:
        """Returns whether all facts agree, including one besides the size if one is known here."""
        pairs = [(_opaque(self.e_tag), _opaque(others.e_tag)), (self.modified, others.modified)]
        both = [one == other for one, other in pairs if one is not None and other is not None]
        unknown = self.e_tag is None and self.modified is None
        return self.size == others.size and all(both) and (bool(both) or unknown)


def _opaque(e_tag: str | None) -> str | None:
    """Returns a tag without the mark of weak tags, which some servers set only for a second."""
    return None if e_tag is None else e_tag.removeprefix("W/")


@final
class _StoreBytes:
    """An object read through obstore, which repeats failed requests itself."""

    def __init__(self, url: str) -> None:
        self._name, self._url = printable(url), url
        folder, self._key = store_address(url)
        with extra("s3", f"reading {self._name}"):
            import obstore
        self._obstore = obstore
        try:
            self._store = self._asked(lambda: _store(folder))
            self._facts = _Facts.of(self._asked(self._head))
        except ValueError as error:
            raise ArgumentError(f"url={self._name!r}: {self._reason(error)}") from None
        tag, modified, self.size = self._facts
        self.version = str(tag if self._facts.is_strong else f"{self.size}-{modified or tag}")
        self.descriptor: int | None = None
        self.lasting = self._facts.is_strong or modified is not None
        if tag is None and modified is None:
            _warn_of_changes(self._name.rpartition("/")[0])

    def read(self, offset: int, size: int) -> memoryview:
        options: dict[str, Any] = {"range": (offset, offset + size)}
        if self._facts.is_strong:  # no other tag matches, by RFC 9110
            options["if_match"] = self._facts.e_tag
        content = self._asked(lambda: self._checked(options))
        if len(content) != size:
            raise StorageError(
                f"{self._name}: the server sent {len(content)} bytes, but {size} were requested"
            )
        return memoryview(content)

    def check(self) -> None:
        """Does nothing: each read refers to the opened version."""

    def close(self) -> None:
        pass

    def _checked(self, options: dict[str, Any]) -> Any:
        """Returns the bytes of an answer for the same file: servers may ignore `if_match`."""
        result = self._obstore.get(self._store, self._key, options=options)
        facts = _Facts.of(result.meta)
        if not self._facts.agree(facts):
            raise StorageError(
                f"{self._name} has changed since it was opened: it had {self._facts.text()}, and has "
                f"{facts.text()} now. Restart the pass"
            )
        if tuple(result.range) != options["range"]:
            raise StorageError(
                f"{self._name}: the server sent bytes {result.range}, but {options['range']} were requested"
            )
        return result.bytes()

    def _head(self) -> Any:
        if "?" in self._url and is_web(self._url):  # perhaps signed for one method, which is GET
            return self._obstore.get(self._store, self._key, options={"range": (0, 1)}).meta
        return self._obstore.head(self._store, self._key)

    def _asked(self, ask: Callable[[], Result]) -> Result:
        if _first_process() != os.getpid():
            raise StorageError(
                f"{self._name} cannot be read in this process: it is a fork of one that has read such files, "
                f'and lacks the threads of the reader. Use start_method="spawn", or threads'
            )
        errors = self._obstore.exceptions
        try:
            return ask()
        except StorageError:
            raise
        except errors.PreconditionError:
            raise StorageError(
                f"{self._name} has changed since it was opened: it had {self._facts.text()}, and the server "
                "has no such version now. Restart the pass"
            ) from None
        except FileNotFoundError:
            raise FileNotFoundError(2, os.strerror(2), self._name) from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise PermissionError(13, f"cannot be read: {self._reason(error)}", self._name) from None
        except errors.NotSupportedError as error:
            raise StorageError(
                f"{self._name} cannot be read by byte ranges, which its server does not support "
                f"({self._reason(error)}). Download the file, and use its path"
            ) from None
        except (errors.BaseError, OSError) as error:
            raise StorageError(f"{self._name} cannot be read: {self._reason(error)}") from None

    def _reason(self, error: Exception) -> str:
        return without_secrets(str(error).partition("\n")[0], self._url)


@functools.lru_cache(maxsize=256)
def _warn_of_changes(folder: str) -> None:
    """Warns once per folder."""
    _log.warning(
        "%s: the server reports neither modification times nor versions of files, so a change during a "
        "read is not detected, and a UrlCache does not store these files.",
        folder,
    )


@functools.cache
def _first_process() -> int:
    """Returns the process that started obstore's threads, also in its forks."""
    return os.getpid()


@functools.lru_cache(maxsize=64)  # an address with a query has a store of one file
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
    """A file in a file system of fsspec."""

    def __init__(self, url: str) -> None:
        self._name, self._url = printable(url), url
        with extra("fsspec", f"reading {self._name}"):
            import fsspec
        try:
            self._system, self._path = fsspec.core.url_to_fs(url)
        except ValueError as error:
            raise ArgumentError(f"{self._name}: {without_secrets(str(error), url)}") from None
        self.descriptor: int | None = None
        self.size, self.version, self.lasting = self._facts()

    def read(self, offset: int, size: int) -> memoryview:
        content = self._repeated(lambda: self._system.cat_file(self._path, start=offset, end=offset + size))
        if len(content) != size:
            raise StorageError(
                f"{self._name}: {len(content)} bytes were received, but {size} were requested; it has changed"
            )
        known, found = (self.size, self.version, self.lasting), self._facts()
        if found != known:
            raise StorageError(
                f"{self._name} has changed since it was opened: it had {known[0]} bytes and version "
                f"{known[1]}, and has {found[0]} bytes and version {found[1]} now. Restart the pass"
            )
        return memoryview(content)

    def check(self) -> None:
        """Does nothing: each read refers to the opened version."""

    def close(self) -> None:
        pass

    def _facts(self) -> tuple[int, str, bool]:
        """Returns the size, the version, and whether anything besides the size distinguishes versions."""
        self._system.invalidate_cache(self._system._parent(self._path))
        facts = self._repeated(lambda: self._system.info(self._path))
        size = facts.get("size")
        if size is None:
            raise StorageError(f"{self._name}: its file system does not report a size")
        plain = (str, bytes, int, float, datetime)
        known = [(name, fact) for name, fact in facts.items() if name not in _CHANGES and type(fact) in plain]
        version = hashlib.sha256(repr(sorted(known)).encode()).hexdigest()[:32]
        return int(size), version, any(name not in _OF_ANY_FILE for name, _ in known)

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
