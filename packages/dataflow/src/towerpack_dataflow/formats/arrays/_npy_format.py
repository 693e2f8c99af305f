"""NumPy's files as arrays over their bytes: `.npy`, and the members of `.npz`."""

from __future__ import annotations

import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._errors import DataFlowError, FormatError
from ...storage import StoredFile, StoredStream

__all__ = ["array_of", "holds_objects", "members_of", "objects_of"]

_LOCAL_HEADER = struct.Struct(
    "<26xHH"
)  # lengths of the name and of the rest that come before a member's bytes
_END = struct.Struct("<10xH10x")  # the number of members, in the last record of an archive
_READ = 2**20  # bytes that are read at a time for a checksum
_MANY = 2**16 - 1  # the number is elsewhere
_Broken = (
    ValueError, SyntaxError, TypeError, LookupError, OverflowError, EOFError, MemoryError, RecursionError,
    tokenize.TokenError,
)  # fmt: skip


_BrokenArchive = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, NotImplementedError, RuntimeError,
    OSError, ValueError, LookupError, OverflowError, MemoryError,
)  # fmt: skip


def array_of(name: str, content: memoryview) -> npt.NDArray[Any]:
    """Returns the array in the bytes of a `.npy` file; a view of them, which cannot be written to.

    Args:
        name: of the file, for messages.
        content: its bytes.

    Raises:
        FormatError: the bytes are no such file, are cut off, or hold Python's objects.
    """
    shape, fortran, dtype, start = _header(name, content)
    if dtype.hasobject:
        raise FormatError(
            f"{name} holds Python's objects, which have no rows of bytes; NumpySerializer reads it"
        )
    size = math.prod(shape)
    if len(content) - start != size * dtype.itemsize:
        raise FormatError(
            f"{name} has {len(content) - start} bytes of values, and its header, shape {shape} of {dtype}, "
            f"needs {size * dtype.itemsize}: it is cut off or damaged; write it again"
        )
    try:
        # Over the file's own memory, also where there is none of it: a shape of no bytes allocates nothing.
        return np.ndarray(shape, dtype, content, start, order="F" if fortran else "C")
    except _Broken as error:
        raise FormatError(f"{name}: there is no array of {dtype} with shape {shape}: {error}") from error


def objects_of(name: str, content: memoryview) -> memoryview:
    """Returns the pickle in a `.npy` file of Python's objects.

    Raises:
        FormatError: the file holds something else.
    """
    _, _, dtype, start = _header(name, content)
    if not dtype.hasobject:
        raise FormatError(f"{name} holds {dtype}; expected a list of datapoints")
    return content[start:]


def holds_objects(name: str, content: memoryview) -> bool:
    """Returns whether a `.npy` file holds Python's objects.

    Raises:
        FormatError: the bytes are no such file.
    """
    return bool(_header(name, content)[2].hasobject)


def members_of(file: StoredFile, verify: bool = True) -> dict[str, memoryview]:
    """Returns the bytes of each member of a `.npz` file, by its name without `.npy`.

    Those that are not compressed are not copied.

    Args:
        file: the archive.
        verify: whether to check the archive's checksums of members that are not compressed, which reads all
            of them. Those of compressed members are always checked.

    Raises:
        FormatError: the file is no archive, is cut off or damaged, or has two members of one name.
    """
    members: dict[str, memoryview] = {}
    try:
        with zipfile.ZipFile(StoredStream(file)) as archive:
            _check_count(file, archive)
            content = file.map()
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in members:
                    raise FormatError(f"{file.name} has two arrays of the name {name!r}; write it again")
                members[name] = _member(file, content, archive, info, verify)
    except _BrokenArchive as error:
        if isinstance(error, DataFlowError):
            raise
        raise FormatError(f"{file.name} is no .npz file, or is cut off or damaged ({error})") from error
    return members


def _header(name: str, content: memoryview) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(content[: 2**16])
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
    except _Broken as error:
        raise FormatError(f"{name} is no .npy file, or its header is damaged: {error}") from error
    if any(axis < 0 for axis in shape):
        raise FormatError(f"{name} has a header with the shape {shape}")
    return shape, fortran, dtype, stream.tell()


def _check_count(file: StoredFile, archive: zipfile.ZipFile) -> None:
    """Compares the number of members with that in the last record, which `zipfile` does not read."""
    place = file.size - _END.size - len(archive.comment)
    [count] = _END.unpack(file.read(place, _END.size))
    found = len(archive.infolist())
    if count not in {found, _MANY}:
        raise zipfile.BadZipFile(f"{count} members are announced, and {found} are there")


def _member(
    file: StoredFile, mapped: memoryview, archive: zipfile.ZipFile, info: zipfile.ZipInfo, verify: bool
) -> memoryview:
    with archive.open(info) as member:  # compares the name and flags in front of the member with the list's
        if info.compress_type != zipfile.ZIP_STORED:
            return memoryview(member.read())
    lengths = _LOCAL_HEADER.unpack(file.read(info.header_offset, _LOCAL_HEADER.size))
    begin = info.header_offset + _LOCAL_HEADER.size + sum(lengths)
    if verify and _checksum(file, begin, info.file_size) != info.CRC:
        raise FormatError(
            f"{file.name}, array {info.filename.removesuffix('.npy')!r}, is damaged: its bytes do not "
            f"have the checksum of the archive; copy or write it again"
        )
    if begin + info.file_size > len(mapped):
        raise zipfile.BadZipFile(f"{info.filename} needs {info.file_size} bytes from byte {begin} on")
    return mapped[begin : begin + info.file_size]


def _checksum(file: StoredFile, begin: int, size: int) -> int:
    checksum = 0
    for at in range(begin, begin + size, _READ):
        checksum = zlib.crc32(file.read(at, min(_READ, begin + size - at)), checksum)
    return checksum
