"""Names of files from URLs without credentials, safe to print, log and store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from .._errors import ArgumentError, ArgumentTypeError

__all__ = [
    "URL",
    "as_url",
    "is_local",
    "is_web",
    "lasting_url",
    "printable",
    "store_address",
    "without_secrets",
]

URL = str | os.PathLike[str]
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
# For Amazon, Google, CloudFront and Azure; shared access signatures of Azure have names of two or three
# letters.
_SIGNATURE = re.compile(
    r"(x-amz-(?!version)|x-goog-|awsaccesskeyid=|googleaccessid=|signature=|expires=|key-pair-id=|policy="
    r"|(sv|ss|srt|sp|se|st|spr|sig|sr|si|sip|skoid|sktid|skt|ske|sks|skv)=)",
    re.IGNORECASE,
)
_ANY_URL = re.compile(_SCHEME.pattern + r"[^\s'\"<>]+")


def as_url(name: str, url: URL) -> str:
    """Returns a URL, or the absolute path of a local file.

    Args:
        name: name of the argument, for the message.
        url: such as `"data/train.tar"`, `"file:///data/train.tar"` or `"s3://bucket/train.tar"`.

    Raises:
        ArgumentTypeError: `url` is neither a string nor a path.
        ArgumentError: `url` is empty; or a `file://` URL has a host, a query or a fragment.

    Example:
        >>> as_url("url", "file:///data/a%20b%23"), as_url("url", "s3://bucket/a%20b")
        ('/data/a b#', 's3://bucket/a%20b')
    """
    if not isinstance(url, (str, os.PathLike)) or isinstance(text := os.fspath(url), bytes):
        raise ArgumentTypeError(f"{name} is a path or a URL; received {type(url).__name__}")
    if not text:
        raise ArgumentError(f"{name} is empty; expected a path or a URL")
    if text[:7].lower() == "file://":
        text = _path_of(name, text)
    if "\0" in text:
        raise ArgumentError(f"{name}={text!r} contains a zero byte, which is invalid in paths and URLs")
    return text if _SCHEME.match(text) else str(Path(text).expanduser().absolute())


def _path_of(name: str, url: str) -> str:
    """Returns the path of a `file://` URL, as `pathlib.Path.as_uri` quotes it."""
    host, slash, path = url[7:].partition("/")
    for mark, part, code in (("?", "a query", "%3F"), ("#", "a fragment", "%23")):
        if mark in url:
            raise ArgumentError(
                f"{name}={url!r} has {part}, which is invalid for a file; write {mark!r} in a name as "
                f"{code}, or use the path itself"
            )
    if host.lower() not in ("", "localhost") or not slash:
        raise ArgumentError(
            f"{name}={url!r} names the host {host!r}; expected a local file, such as file:///folder/name"
        )
    if "%2f" in path.lower():
        raise ArgumentError(f"{name}={url!r} has %2F, which would split a name; expected '/' between names")
    return slash + os.fsdecode(unquote_to_bytes(path))


def is_local(url: str) -> bool:
    """Returns whether a result of `as_url` is a path."""
    return not _SCHEME.match(url)


def printable(url: str) -> str:
    """Returns a URL without user, password and query, which may hold keys and signatures.

    The keys of object stores have no query: a question mark is part of the name.

    Example:
        >>> printable("https://me:secret@host/file.tar?X-Amz-Signature=0a1b")
        'https://host/file.tar'
    """
    if is_local(url):
        return url
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if scheme.lower() not in _STORES:
        host, path = re.split("[?#]", host)[0], "" if set(host) & set("?#") else re.split("[?#]", path)[0]
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def lasting_url(url: str) -> str:
    """Returns a URL without user, password and signature: the persistent name of a file across runs.

    Example:
        >>> lasting_url("https://me:secret@host/file?id=7&X-Amz-Signature=0a1b&X-Amz-Expires=60")
        'https://host/file?id=7'
    """
    name, (_, mark, query) = printable(url), url.partition("?")
    if is_local(url) or url.partition("://")[0].lower() in _STORES or not mark:
        return name
    parts = [part for part in query.split("&") if not _SIGNATURE.match(part)]
    return f"{name}?{'&'.join(parts)}" if parts else name


def without_secrets(text: str, url: str) -> str:
    """Returns a library's error message without the secrets that `printable` removes, in any encoding.

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
