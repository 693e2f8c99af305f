"""Addresses for obstore: the address of a store, and the key of a file in it."""

from __future__ import annotations

from urllib.parse import unquote

from .._errors import ArgumentError
from ._printable_url import printable

__all__ = ["is_web", "store_address"]


def is_web(url: str) -> bool:
    """Returns whether a URL belongs to a web server, with percent-encoded characters."""
    return url.partition("://")[0].lower() in ("http", "https")


def store_address(url: str) -> tuple[str, str]:
    """Splits the URL of a file.

    Keys of object stores are the literal text of the URL. In the URL of a web server, characters are
    percent-encoded, and a query is part of the address. If decoding would lose information, the key is empty,
    and the store is the file.

    Raises:
        ArgumentError: obstore cannot read this key; or a web address has a fragment.

    Example:
        >>> store_address("s3://bucket/folder/a%20b#1")
        ('s3://bucket', 'folder/a%20b#1')
        >>> store_address("https://host/folder/a%20b")
        ('https://host/folder', 'a b')
        >>> store_address("https://host/folder/a?b=1")
        ('https://host/folder/a?b=1', '')
    """
    if is_web(url):
        return _web_address(url)
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if not _is_plain(key):
        raise ArgumentError(
            f"url={printable(url)!r} has the key {key!r}; expected one without empty parts, '.' and "
            "'..' between its slashes, which obstore rejects. Copy the object to another key"
        )
    return f"{scheme}://{bucket}", key


def _web_address(url: str) -> tuple[str, str]:
    if "#" in url:
        raise ArgumentError(
            f"url={printable(url)!r} has the fragment {url.partition('#')[2]!r}, which no server "
            "receives; expected none. Write the character '#' of a name as %23"
        )
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    folder, _, name = url.rpartition("/")
    key = unquote(name, errors="replace")
    if key in (".", ".."):
        raise ArgumentError(
            f"url={printable(url)!r} ends with {name!r}, a folder; expected the name of a file"
        )
    whole = not path or "?" in url or "\ufffd" in key or key.count("/") or not _is_plain(key)
    return (url, "") if whole else (folder, key)


def _is_plain(key: str) -> bool:
    return not {"", ".", ".."} & set(key.split("/"))
