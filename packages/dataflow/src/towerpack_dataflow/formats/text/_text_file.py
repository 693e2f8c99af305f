"""The bytes of a text file, decompressed, in an encoding in which line ends and quotes are those of ASCII."""

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
    """Returns the name of an encoding if bytes up to 127 always are letters of ASCII in it; else None.

    In such an encoding, records are found without decoding the file: UTF-8, Latin-1, the code pages of
    Windows. UTF-16 is another one.

    Raises:
        ArgumentError: Python has no such encoding of text.

    Example:
        >>> byte_encoding("latin1"), byte_encoding("utf-8-sig"), byte_encoding("utf-16")
        ('iso8859-1', 'utf-8', None)
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)  # which is refused by codecs of bytes
    except (LookupError, TypeError, ValueError):
        raise ArgumentError(
            f"encoding is an encoding of text that Python has, such as 'cp1252'; received {encoding!r}"
        ) from None
    if name == "utf-8-sig":
        return "utf-8"  # whose mark at the beginning is left out in any case
    try:
        same = all(bytes([code]).decode(name, "replace") == chr(code) for code in range(128))
    except UnicodeError:  # such as idna, which replaces nothing
        same = False
    return name if same else None


def open_text(url: URL, encoding: str, reader: str, opened: Callable[[URL], StoredFile]) -> StoredFile:
    """Opens a text file, or a copy in the cache where it is compressed or needs to be decoded as a whole.

    Args:
        url: of the file; `.gz`, `.bz2` and `.xz` are told by the first bytes.
        encoding: of the text. A copy of a file without a `byte_encoding` is in UTF-8.
        reader: a name of the one that reads, to whom a copy belongs if its server tells no versions apart.
        opened: opens the file itself.

    Raises:
        FormatError: the compressed bytes are cut off or damaged, or the text is not in this encoding.
        StorageError: the copy is larger than the cache may become.
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
    """Checks that a file is read as it is, so that an index of it serves.

    Raises:
        ArgumentError: it is compressed, or in an encoding such as UTF-16.
    """
    with open_url(url) as file:
        if _decompressor(file) or not byte_encoding(encoding):
            raise ArgumentError(
                f"{file.name} is compressed or in {encoding}, so that a copy in the cache is read, and an "
                "index of it would serve nothing; decompress it, or write it in UTF-8"
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
                    f"{file.name}: its compressed bytes are cut off or damaged: {error}"
                ) from error
            yield text.encode() if decoder else chunk
            if not chunk:
                return
