"""The members of a tar file that are parts of samples, including links and members of later archives."""

from __future__ import annotations

import io
import json
import logging
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from ..._errors import DataFlowError, FormatError
from ...storage import StoredFile, StoredStream, UrlCache, create_file, is_local
from .._offset_index import read_index_beside
from ..arrays._file_rows import array_of, members_of, write_npz

__all__ = [
    "Place",
    "SampleMember",
    "TarIndex",
    "key_of",
    "load_index",
    "sample_members",
    "scan",
    "store_index",
]

_log = logging.getLogger("towerpack_dataflow")

_BUFFER = 2**20
_LONGEST_HEADER = 2**20
_MOST_DIGITS = 1000  # consecutive digits in a header; tarfile takes quadratic time for them
_AS_ZEROS = bytes(ord("0") if chr(byte).isdecimal() else byte for byte in range(128)) + bytes(range(128, 256))
# As in WebDataset, except that names may contain line ends.
_KEY_AND_EXTENSION = re.compile(r"((?:.*/)?[^.]+)\.([^/]*)", re.DOTALL)
_METADATA = re.compile(r"__[^/]*__(/|\Z)")
# Folders, devices and pipes; for GNU tar: names of volumes, and lists of folders.
_WITHOUT_BYTES: Final = {tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"V", b"D"}


class Place(NamedTuple):
    """The position of a member: start of the header, start and number of its bytes, CRC32 of the header."""

    head: int
    begin: int
    size: int
    check: int


@final
class SampleMember(NamedTuple):
    """A part of a sample.

    Attributes:
        name: name of the member.
        place: position of its bytes; for a link, of the file it refers to.
        archive: number of its archive in a file of several.
    """

    name: str
    place: Place
    archive: int


@final
class _Member(NamedTuple):
    name: str
    place: Place
    archive: int
    kind: str  # "file", "link", "hard link", "folder" or the reason why it cannot be read
    target: str  # target of a link, from the root of the archive


def key_of(name: str) -> tuple[str, str] | None:
    """Returns the key of a member's sample, and the member's name in it; `None` outside all samples.

    As in WebDataset, a file without a dot in the last part of its name belongs to no sample, nor does one
    in a folder such as `__index__`, or with such a name.

    Example:
        >>> key_of("train/0001.seg.png")
        ('train/0001', 'seg.png')
        >>> key_of("README"), key_of("__index__/0001.json")
        (None, None)
    """
    found = None if _METADATA.match(name) else _KEY_AND_EXTENSION.fullmatch(name)
    return found and (found[1], found[2])


def sample_members(file: StoredFile) -> list[SampleMember]:
    """Returns the parts of samples in a tar file, in order.

    Links are followed to members of the file. Folders, links to folders, devices and pipes have no bytes, and
    are left out. Consecutive archives in one file are read as one.

    Raises:
        FormatError: the file is not a tar file, is truncated or compressed; a part of a sample is a sparse
            file, or a link to something other than a member.
    """
    try:
        members = list(_members(file))
    except (tarfile.TarError, ValueError, EOFError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, DataFlowError):
            raise
        hint = "compressed: decompress it first" if _is_compressed(file) else "truncated or damaged"
        raise FormatError(f"{file.name} is not a tar file, or is {hint} ({error})") from error
    links = _Links(file, members)
    found = []
    for number, member in enumerate(members):
        if key_of(member.name) is None:
            continue
        real = links.resolve(number)
        if real is not None:
            found.append(SampleMember(member.name, real.place, member.archive))
    return found


def _members(file: StoredFile) -> Iterator[_Member]:
    # Large reads for a remote file; a mapped file is accessed only at headers.
    stream = _Headers(StoredStream(file), _BUFFER)
    begin: int | None = 0
    archive = 0
    while begin is not None:
        stream.seek(begin)
        end = begin
        with tarfile.open(fileobj=stream.of_one_member(), mode="r:") as tar:
            while (found := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # It would keep all members.
                if found.size < 0 or found.offset < end:
                    raise tarfile.ReadError(f"member {found.name!r} ends before it begins")
                end = found.offset_data
                yield _member(file, stream, found, archive)
                stream.of_one_member()
            end = tar.offset
        begin = _next_archive(file, end)
        archive += 1


def _member(file: StoredFile, stream: _Headers, found: tarfile.TarInfo, archive: int) -> _Member:
    begin, kind, target = found.offset_data, "file", found.linkname
    if found.islnk():
        kind = "hard link"
    elif found.issym():
        kind, target = "link", posixpath.join(posixpath.dirname(found.name), target)
    elif found.type in _WITHOUT_BYTES:
        kind = "folder"
    elif found.issparse():
        kind = "is a sparse file: write the archive again without tar's option --sparse"
    elif not found.isreg():
        kind = f"has the type {found.type!r}, which is not supported"
    elif begin + found.size > file.size:
        raise FormatError(
            f"{file.name}, member {found.name!r}, needs {found.size} bytes from byte {begin} on, but the "
            f"file has {file.size}: it is truncated"
        )
    stream.of_one_member().seek(found.offset)
    check = zlib.crc32(stream.read(begin - found.offset))
    place = Place(found.offset, begin, found.size, check)
    target = posixpath.normpath(target) if found.linkname else ""
    return _Member(found.name, place, archive, kind, target)


def _next_archive(file: StoredFile, end: int) -> int | None:
    """Returns the start of another archive after the end of one; `None` if only zeros follow.

    Raises:
        FormatError: other bytes follow the last member, since `tarfile` treats a damaged header as the end.
    """
    if end >= file.size:
        _log.warning("%s has no end mark after its last member; it may have been truncated there", file.name)
    for at in range(end, file.size, _BUFFER):
        block = bytes(file.read(at, min(_BUFFER, file.size - at)))
        zeros = len(block) - len(block.lstrip(b"\0"))
        if zeros < len(block):
            begin = at + zeros - zeros % tarfile.BLOCKSIZE
            if begin == end:
                raise FormatError(
                    f"{file.name}: the bytes after the last member, at byte {end}, are neither a member nor "
                    f"the end: the file is truncated or damaged; copy or write it again"
                )
            return begin
    return None


@final
class _Links:
    """Finds the target members of links."""

    def __init__(self, file: StoredFile, members: list[_Member]) -> None:
        self._file, self._members = file, members
        self._numbers: dict[str, list[int]] = {}
        self._folders: set[str] = set()
        self._next: dict[int, int | None] = {}  # the target member of a link, by number
        if any(member.target for member in members):
            for number, member in enumerate(members):
                name = posixpath.normpath(member.name)
                self._numbers.setdefault(name, []).append(number)
                self._folders.update(_parents(name))

    def resolve(self, number: int) -> _Member | None:
        """Returns the file of a member, after following links; `None` if that is a folder.

        Raises:
            FormatError: a link refers to no member, to itself, or to an unsupported one.
        """
        passed: list[int] = []
        while (member := self._members[number]).kind in {"link", "hard link"}:
            passed.append(number)
            if number not in self._next:
                self._next[number] = self._target(number, member)
            found = self._next[number]
            if found is None and member.target in self._folders:
                return None
            if found is None or len(passed) > len(self._members):
                raise FormatError(
                    f"{self._file.name}, member {self._members[passed[0]].name!r}, is a link to "
                    f"{member.target!r}, which is not a file in the archive; write the archive again with "
                    f"that file, or with tar's option --dereference"
                )
            number = found
        for each in passed:
            self._next[each] = number  # follows long chains only once
        if member.kind not in {"file", "folder"}:
            raise FormatError(f"{self._file.name}, member {member.name!r}, {member.kind}")
        return member if member.kind == "file" else None

    def _target(self, number: int, link: _Member) -> int | None:
        """Returns the number of the member with a name: of several, the one that tar would extract."""
        numbers = self._numbers.get(link.target, [])
        if link.kind == "hard link":
            numbers = [each for each in numbers if each < number] or numbers[:1]
        return numbers[-1] if numbers else None


def _parents(name: str) -> Iterator[str]:
    while name not in {"", "/"}:
        name = posixpath.dirname(name)
        yield name or "."


@final
class _Headers(io.BufferedReader):
    """Reads headers of limited size: an unlimited header could fill the memory."""

    _left = 0

    def of_one_member(self) -> _Headers:
        """Allows reading the headers of another member."""
        self._left = _LONGEST_HEADER
        return self

    def read(self, size: int | None = -1) -> bytes:
        """Reads a part of a header.

        Raises:
            ReadError: the header is too large.
        """
        if size is None or not 0 <= size <= self._left:
            raise tarfile.ReadError(f"a header is larger than {_LONGEST_HEADER} bytes")
        self._left -= size
        content: Any = super().read(size)
        if b"0" * _MOST_DIGITS in content.translate(_AS_ZEROS):
            raise tarfile.ReadError(f"a header has a number of more than {_MOST_DIGITS} digits")
        return bytes(content)


def _is_compressed(file: StoredFile) -> bool:
    return file.size >= 6 and bytes(file.read(0, 6)).startswith(
        (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
    )


INDEX_VERSION: Final = 3
_FORMAT: Final = "towerpack-tar-index"
_COLUMNS = 4


@final
@dataclass(frozen=True)
class TarIndex:
    """The parts of samples in a tar file, in order.

    Args:
        names: names of the members.
        places: one row per member, with the fields of `Place`.
        samples: the first member of each sample, and the number of members.
    """

    names: list[str]
    places: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]

    def fits(self, file: StoredFile) -> bool:
        """Returns whether the last member's header is at its expected position.

        A tar file is padded to a multiple of 10 KiB, so different files often have the same size.
        """
        if not self.names:
            return True
        head, begin, _, check = self.places[-1].tolist()
        return bool(zlib.crc32(file.read(head, begin - head)) == check)


def scan(file: StoredFile) -> TarIndex:
    """Finds the members of a tar file that are parts of samples, and groups them.

    Raises:
        FormatError: the file is not a tar file, is truncated or compressed, or has an unreadable member.
    """
    members = sample_members(file)
    groups = [(member.archive, (key_of(member.name) or ("",))[0]) for member in members]
    first = [number for number, group in enumerate(groups) if not number or groups[number - 1] != group]
    places = np.array([member.place for member in members], np.int64).reshape(-1, _COLUMNS)
    return TarIndex([member.name for member in members], places, np.array([*first, len(members)], np.int64))


def store_index(file: StoredFile, index: TarIndex) -> None:
    """Writes `<file>.index` atomically.

    Raises:
        OSError: the index cannot be written.
    """
    head = {"format": _FORMAT, "version": INDEX_VERSION, "size": file.size, "of": file.version}
    names = "\0".join(index.names).encode("utf-8", "surrogateescape")
    with create_file(f"{file.name}.index") as out:
        arrays: dict[str, Any] = {
            "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
            "names": np.frombuffer(names, np.uint8),
            "places": index.places,
            "samples": index.samples,
        }
        write_npz(out, arrays)


def load_index(file: StoredFile, url: str, cache: UrlCache | None) -> TarIndex:
    """Returns the members of a file: from its index, or else from the file itself.

    Args:
        file: the tar file.
        url: URL of the file, with credentials.
        cache: cache for a remote index.

    Raises:
        FormatError: the index is damaged; or the file is damaged and has no index.
        StorageError: the index cannot be reached.
    """
    found = read_index_beside(file, url, lambda stored: _parsed(stored, file), "index_tar(path)", cache)
    return scan(file) if found is None else found


def _parsed(stored: StoredFile, file: StoredFile) -> TarIndex | None:
    members = members_of(stored)
    try:
        head = json.loads(bytes(array_of(stored.name, members["head"])))
        if head["format"] != _FORMAT:
            raise FormatError(f"{stored.name} is not an index of a tar file; remove it")
        # A remote copy has another version; in that case size and headers are compared.
        same = head["size"] == file.size and (head["of"] == file.version or not is_local(file.name))
        if head["version"] != INDEX_VERSION or not same:
            return None
        text = bytes(array_of(stored.name, members["names"])).decode("utf-8", "surrogateescape")
        names = text.split("\0") if text else []
        places, samples = (array_of(stored.name, members[name]) for name in ("places", "samples"))
        _check_places(stored.name, names, places, file.size)
        _check_samples(stored.name, samples, len(names))
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{stored.name} is damaged ({error!r}); remove it, and call index_tar(path)"
        ) from error
    index = TarIndex(names, places, samples)
    return index if index.fits(file) else None


def _check_places(name: str, names: list[str], places: Any, size: int) -> None:
    if places.dtype != np.int64 or places.shape != (len(names), _COLUMNS):
        raise FormatError(f"{name} is damaged: it has {len(names)} names, but places of shape {places.shape}")
    heads, begins, sizes, _ = places.T
    # Check each number against the file size before adding numbers, so that no sum overflows.
    if ((places[:, :3] < 0) | (places[:, :3] > size)).any() or (begins + sizes > size).any():
        raise FormatError(f"{name} is damaged: it has members outside the {size} bytes of the file")
    if (heads >= begins).any():
        raise FormatError(f"{name} is damaged: it has members without headers")


def _check_samples(name: str, samples: Any, members: int) -> None:
    right = samples.dtype == np.int64 and samples.ndim == 1 and len(samples) and samples[-1] == members
    if not right or (members and samples[0] != 0) or (np.diff(samples) <= 0).any():
        raise FormatError(f"{name} is damaged: its samples do not have all of its {members} members")
