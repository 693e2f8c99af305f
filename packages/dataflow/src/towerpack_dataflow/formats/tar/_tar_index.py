"""Where the members of a tar file lie: found once, and kept in a file beside it."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from ..._errors import FormatError
from ...storage import StoredFile, StoredStream, UrlCache, create_file, is_local, write_npz
from .._index_beside import read_index_beside
from ..arrays import array_of, members_of

__all__ = ["TarIndex", "load_index", "scan", "store_index"]

INDEX_VERSION: Final = 2
_FORMAT: Final = "towerpack-tar-index"
_BUFFER = 2**20
_COLUMNS = 4


@final
@dataclass(frozen=True)
class TarIndex:
    """Members of a tar file, in their order, and the samples that they make.

    Args:
        names: of the members.
        places: a row for each: where its header begins in the file, where its bytes do, how many bytes it
            has, and the CRC32 of the header.
        samples: the first member of each sample, and the number of members.
    """

    names: list[str]
    places: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]

    @classmethod
    def of(cls, names: list[str], places: npt.NDArray[np.int64]) -> TarIndex:
        """Groups members with one key, which follow each other, into samples."""
        keys = [key_of(name)[0] for name in names]
        first = [number for number, key in enumerate(keys) if not number or keys[number - 1] != key]
        return cls(names, places, np.array([*first, len(names)], np.int64))

    def fits(self, file: StoredFile) -> bool:
        """Returns whether the last member's header is where it should be.

        A tar file is filled up to a multiple of 10 KiB, so another one often has the same size.
        """
        if not self.names:
            return True
        head, begin, _, check = self.places[-1].tolist()
        return bool(zlib.crc32(file.read(head, begin - head)) == check)


def key_of(name: str) -> tuple[str, str]:
    """Returns the key of a member's sample, and what the member is in it.

    Example:
        >>> key_of("train/0001.seg.png")
        ('train/0001', 'seg.png')
    """
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return f"{folder}{slash}{stem}", extension


def scan(file: StoredFile) -> TarIndex:
    """Finds the members of a tar file.

    Raises:
        FormatError: the file is no tar file, is cut off or compressed.
    """
    names, places = [], []
    for name, *place in _members(file):
        names.append(name)
        places.append(place)
    return TarIndex.of(names, np.array(places, np.int64).reshape(-1, _COLUMNS))


def _members(file: StoredFile) -> Iterator[tuple[str, int, int, int, int]]:
    # Large reads where the file lies elsewhere; a mapped one is only looked at where headers are.
    stream = io.BufferedReader(StoredStream(file), _BUFFER)
    try:
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                if member.isfile() and not member.issparse():
                    if member.offset_data + member.size > file.size:
                        raise FormatError(
                            f"{file.name}, member {member.name!r}, needs {member.size} bytes from byte "
                            f"{member.offset_data} on, and the file has {file.size}: it is cut off"
                        )
                    begin = member.offset_data
                    stream.seek(member.offset)  # `archive` seeks for itself
                    header = stream.read(begin - member.offset)
                    yield member.name, member.offset, begin, member.size, zlib.crc32(header)
            _check_end(file, archive.offset)
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        hint = "compressed: decompress it first" if _is_compressed(file) else "cut off or damaged"
        raise FormatError(f"{file.name} is no tar file, or is {hint} ({error})") from error


def _check_end(file: StoredFile, end: int) -> None:
    """Checks what follows the last member, since `tarfile` takes a damaged header for the end."""
    rest = bytes(file.read(end, min(tarfile.BLOCKSIZE, file.size - end))) if end < file.size else b""
    if any(rest):
        raise FormatError(
            f"{file.name}: what follows the last member, at byte {end}, is neither a member nor the end: "
            f"it is cut off or damaged; copy or write it again"
        )


def store_index(file: StoredFile, index: TarIndex) -> None:
    """Writes `<file>.index`, as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    head = {"format": _FORMAT, "version": INDEX_VERSION, "size": file.size, "of": file.version}
    names = "\0".join(index.names).encode("utf-8", "surrogateescape")
    with create_file(f"{file.name}.index") as out:
        arrays: dict[str, Any] = {
            "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
            "names": np.frombuffer(names, np.uint8),
            "places": index.places,
        }
        write_npz(out, arrays)


def load_index(file: StoredFile, url: str, cache: UrlCache | None) -> TarIndex:
    """Returns the members of a file: from the index beside it, else from the file itself.

    Args:
        file: the tar file.
        url: of it, with credentials.
        cache: for an index elsewhere.

    Raises:
        FormatError: the index is damaged; or there is none, and the file is.
        StorageError: the index cannot be reached.
    """
    found = read_index_beside(file, url, lambda stored: _parsed(stored, file), "index_tar(path)", cache)
    return scan(file) if found is None else found


def _parsed(stored: StoredFile, file: StoredFile) -> TarIndex | None:
    members = members_of(stored)
    try:
        head = json.loads(bytes(array_of(stored.name, members["head"])))
        if head["format"] != _FORMAT:
            raise FormatError(f"{stored.name} is no index of a tar file; remove it")
        # A copy elsewhere has a version of its own; there, size and headers must do.
        same = head["size"] == file.size and (head["of"] == file.version or not is_local(file.name))
        if head["version"] != INDEX_VERSION or not same:
            return None
        text = bytes(array_of(stored.name, members["names"])).decode("utf-8", "surrogateescape")
        names, places = text.split("\0") if text else [], array_of(stored.name, members["places"])
        _check_places(stored.name, names, places, file.size)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{stored.name} is damaged ({error!r}); remove it, and call index_tar(path)"
        ) from error
    index = TarIndex.of(names, places)
    return index if index.fits(file) else None


def _check_places(name: str, names: list[str], places: Any, size: int) -> None:
    if places.dtype != np.int64 or places.shape != (len(names), _COLUMNS):
        raise FormatError(f"{name} is damaged: it has {len(names)} names, and places of shape {places.shape}")
    heads, begins, sizes, _ = places.T
    # Each number is within the file before numbers are added, so that no sum overflows.
    if ((places[:, :3] < 0) | (places[:, :3] > size)).any() or (begins + sizes > size).any():
        raise FormatError(f"{name} is damaged: it has members outside of the {size} bytes of the file")
    if (heads >= begins).any() or (heads[1:] < (begins + sizes)[:-1]).any():
        raise FormatError(f"{name} is damaged: it has members that overlap")


def _is_compressed(file: StoredFile) -> bool:
    return file.size >= 6 and bytes(file.read(0, 6)).startswith(
        (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
    )
