"""Names of files, from their URLs, that may be printed, logged and kept: without credentials."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from .._errors import ArgumentError, ArgumentTypeError

__all__ = ["URL", "as_url", "is_local", "printable", "without_secrets"]

URL = str | os.PathLike[str]
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ANY_URL = re.compile(_SCHEME.pattern + r"[^\s'\"<>]+")


def as_url(name: str, url: URL) -> str:
    """Returns a URL, or the absolute path of a local file.

    Args:
        name: of the argument, for the message.
        url: such as `"data/train.tar"`, `"file:///data/train.tar"` or `"s3://bucket/train.tar"`.

    Raises:
        ArgumentTypeError: it is no text and no path.
        ArgumentError: it is empty.
    """
    if not isinstance(url, (str, os.PathLike)) or isinstance(text := os.fspath(url), bytes):
        raise ArgumentTypeError(f"{name} is a path or a URL; received {type(url).__name__}")
    if not text:
        raise ArgumentError(f"{name} is empty; expected a path or a URL")
    if text.startswith("file://"):
        text = urlsplit(text).path
    return text if _SCHEME.match(text) else str(Path(text).expanduser().absolute())


def is_local(url: str) -> bool:
    """Returns whether `as_url` gave a path."""
    return not _SCHEME.match(url)


def printable(url: str) -> str:
    """Returns a URL without user, password and query, where keys and signatures are.

    Example:
        >>> printable("https://me:secret@host/file.tar?X-Amz-Signature=0a1b")
        'https://host/file.tar'
    """
    if is_local(url):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_secrets(text: str, url: str) -> str:
    """Returns the words of a library's error without what `printable` leaves out, however encoded.

    Example:
        >>> url = "https://me:a secret@host/file.tar?key=0a 1b"
        >>> without_secrets("error at https://me:a%20secret@host/file.tar?key=0a%201b", url)
        'error at https://host/file.tar'
        >>> without_secrets("no user me:a secret", url)
        'no user …'
    """
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    for secret in filter(None, (parts.query, user, user.partition(":")[2], parts.fragment)):
        for form in (secret, unquote(secret), quote(secret), quote(secret, safe="")):
            text = text.replace(form, "…")
    return _ANY_URL.sub(lambda found: printable(found[0]), text)
