"""The decompressed bytes of a text file, in an encoding with line ends and quotes as in ASCII."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..._errors import ArgumentError, FormatError
from ...storage import URL, StoredFile, StoredStream, UrlCache, is_local, open_url

__all__ = ["byte_encoding", "open_text", "refuse_copy"]

_CHUNK: Final = 2**20
_ENDS_EARLY = (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


def byte_encoding(encoding: str) -> str | None:
    """Returns the name of an encoding in which bytes up to 127 always are ASCII characters; else None.

    In such an encoding, records are found without decoding the file: UTF-8, Latin-1, the code pages of
    Windows. UTF-16 is not one of them.

    Raises:
        ArgumentError: the text encoding is unknown to Python.

    Example:
        >>> byte_encoding("latin1"), byte_encoding("utf-8-sig"), byte_encoding("utf-16")
        ('iso8859-1', 'utf-8', None)
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)  # rejected by codecs of bytes
    except (LookupError, TypeError, ValueError):
        raise ArgumentError(
            f"encoding is a text encoding of Python, such as 'cp1252'; received {encoding!r}"
        ) from None
    if name == "utf-8-sig":
        return "utf-8"  # the byte order mark is ignored in any case
    try:
        same = all(bytes([code]).decode(name, "replace") == chr(code) for code in range(128))
    except UnicodeError:  # such as idna, which has no replacement character
        same = False
    return name if same else None


def open_text(url: URL, encoding: str, reader: str, opened: Callable[[URL], StoredFile]) -> StoredFile:
    """Opens a text file, or a copy in the cache if it is compressed or must be decoded as a whole.

    Args:
        url: URL of the file; `.gz`, `.bz2` and `.xz` are identified by the first bytes.
        encoding: encoding of the text. A copy of a file without a `byte_encoding` is in UTF-8.
        reader: a name of the reader, which owns a copy if the server does not distinguish versions.
        opened: opens the file itself.

    Raises:
        FormatError: the compressed bytes are truncated or damaged, or the text does not have this encoding.
        StorageError: the copy exceeds the limit of the cache.
        OSError: the file cannot be read, or the copy cannot be written.
    """
    file = opened(url)
    decompress = _decompressor(file)
    if decompress is None and byte_encoding(encoding):
        return file
    with file:
        name = os.path.abspath(file.name) if is_local(file.name) else file.name
        version = f"{file.version} as {encoding}" if file.lasting else f"{file.version} of {reader}"
        version = f"{version} at {file.lasting_url}"  # the name has no query
        copy = UrlCache().made(name, version, lambda: _chunks(file, decompress, encoding))
    return open_url(copy)


def refuse_copy(url: URL, encoding: str) -> None:
    """Checks that a file is read directly, so that an index of it is useful.

    Raises:
        ArgumentError: the file is compressed, or in an encoding such as UTF-16.
    """
    with open_url(url) as file:
        if _decompressor(file) or not byte_encoding(encoding):
            raise ArgumentError(
                f"{file.name} is compressed or in {encoding}, so that a copy in the cache is read, and an "
                "index of it would be useless; decompress it, or write it in UTF-8"
            )


def _decompressor(file: StoredFile) -> Callable[[Any], Any] | None:
    begin = bytes(file.read(0, min(file.size, 10)))
    if begin.startswith(b"\x1f\x8b"):
        return lambda stream: gzip.open(stream)
    if begin.startswith(b"BZh") and begin[4:] == b"1AY&SY":
        return lambda stream: bz2.open(stream)
    if begin.startswith(b"\xfd7zXZ\0"):
        return lambda stream: lzma.open(stream)
    return None


def _chunks(file: StoredFile, decompress: Callable[[Any], Any] | None, encoding: str) -> Iterator[bytes]:
    """Yields the bytes of the copy."""
    decoder = None if byte_encoding(encoding) else codecs.getincrementaldecoder(encoding)()
    stream: Any = StoredStream(file)
    with stream if decompress is None else decompress(stream) as content:
        while True:
            try:
                chunk = content.read(_CHUNK)
                text = decoder.decode(chunk, not chunk) if decoder else ""
            except UnicodeError as error:
                raise FormatError(f"{file.name} is not in {encoding}: {error}") from error
            except _ENDS_EARLY as error:
                if decompress is None:
                    raise
                raise FormatError(
                    f"{file.name}: its compressed bytes are truncated or damaged: {error}"
                ) from error
            yield text.encode() if decoder else chunk
            if not chunk:
                return
