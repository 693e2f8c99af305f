"""NumPy files as arrays over their bytes: `.npy`, and `.npz` archives, read and written without pickles."""

from __future__ import annotations

import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..._errors import DataFlowError, FormatError
from ...storage import StoredFile, StoredStream

__all__ = ["array_of", "holds_objects", "members_of", "objects_of", "write_npz"]

_LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of the name and of the extra field before a member's bytes
_END = struct.Struct("<10xH10x")  # the number of members, in the last record of an archive
_READ = 2**20  # bytes to read at a time for a checksum
_MANY = 2**16 - 1  # the number is stored elsewhere
_Broken = (
    ValueError, SyntaxError, TypeError, LookupError, OverflowError, EOFError, MemoryError, RecursionError,
    tokenize.TokenError,
)  # fmt: skip


_BrokenArchive = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, NotImplementedError, RuntimeError,
    OSError, ValueError, LookupError, OverflowError, MemoryError,
)  # fmt: skip


def array_of(name: str, content: memoryview) -> npt.NDArray[Any]:
    """Returns the array in the bytes of a `.npy` file; a read-only view of them.

    Args:
        name: name of the file, for messages.
        content: bytes of the file.

    Raises:
        FormatError: the bytes are not such a file, are truncated, or hold Python objects.
    """
    shape, fortran, dtype, start = _header(name, content)
    if dtype.hasobject:
        raise FormatError(
            f"{name} holds Python objects, which have no rows of bytes; read it with NumpySerializer"
        )
    size = math.prod(shape)
    if len(content) - start != size * dtype.itemsize:
        raise FormatError(
            f"{name} has {len(content) - start} bytes of values, but its header, shape {shape} of {dtype}, "
            f"needs {size * dtype.itemsize}: it is truncated or damaged; write it again"
        )
    try:
        # Over the file's memory, also if the array is empty: a shape without bytes allocates nothing.
        return np.ndarray(shape, dtype, content, start, order="F" if fortran else "C")
    except _Broken as error:
        raise FormatError(f"{name}: an array of {dtype} with shape {shape} is impossible: {error}") from error


def objects_of(name: str, content: memoryview) -> memoryview:
    """Returns the pickle in a `.npy` file of Python objects.

    Raises:
        FormatError: the file has other content.
    """
    _, _, dtype, start = _header(name, content)
    if not dtype.hasobject:
        raise FormatError(f"{name} holds {dtype}; expected a list of datapoints")
    return content[start:]


def holds_objects(name: str, content: memoryview) -> bool:
    """Returns whether a `.npy` file holds Python objects.

    Raises:
        FormatError: the bytes are not such a file.
    """
    return bool(_header(name, content)[2].hasobject)


def members_of(file: StoredFile, verify: bool = True) -> dict[str, memoryview]:
    """Returns the bytes of each member of a `.npz` file, by its name without `.npy`.

    Uncompressed members are not copied.

    Args:
        file: the archive.
        verify: whether to check the archive's checksums of uncompressed members, which reads all of them.
            Those of compressed members are always checked.

    Raises:
        FormatError: the file is not an archive, is truncated or damaged, or has two members of the same name.
    """
    members: dict[str, memoryview] = {}
    try:
        with zipfile.ZipFile(StoredStream(file)) as archive:
            _check_count(file, archive)
            content = file.map()
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in members:
                    raise FormatError(f"{file.name} has two arrays named {name!r}; write it again")
                members[name] = _member(file, content, archive, info, verify)
    except _BrokenArchive as error:
        if isinstance(error, DataFlowError):
            raise
        raise FormatError(f"{file.name} is not a .npz file, or is truncated or damaged ({error})") from error
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
        raise FormatError(f"{name} is not a .npy file, or its header is damaged: {error}") from error
    if any(axis < 0 for axis in shape):
        raise FormatError(f"{name} has a header with the shape {shape}")
    return shape, fortran, dtype, stream.tell()


def _check_count(file: StoredFile, archive: zipfile.ZipFile) -> None:
    """Compares the number of members with that in the last record, which `zipfile` ignores."""
    place = file.size - _END.size - len(archive.comment)
    [count] = _END.unpack(file.read(place, _END.size))
    found = len(archive.infolist())
    if count not in {found, _MANY}:
        raise zipfile.BadZipFile(f"{count} members are expected, but {found} are present")


def _member(
    file: StoredFile, mapped: memoryview, archive: zipfile.ZipFile, info: zipfile.ZipInfo, verify: bool
) -> memoryview:
    with archive.open(info) as member:  # compares name and flags before the member with the directory
        if info.compress_type != zipfile.ZIP_STORED:
            return memoryview(member.read())
    lengths = _LOCAL_HEADER.unpack(file.read(info.header_offset, _LOCAL_HEADER.size))
    begin = info.header_offset + _LOCAL_HEADER.size + sum(lengths)
    if verify and _checksum(file, begin, info.file_size) != info.CRC:
        raise FormatError(
            f"{file.name}, array {info.filename.removesuffix('.npy')!r}, is damaged: its bytes do not "
            f"match the checksum of the archive; copy or write it again"
        )
    if begin + info.file_size > len(mapped):
        raise zipfile.BadZipFile(f"{info.filename} needs {info.file_size} bytes starting at byte {begin}")
    return mapped[begin : begin + info.file_size]


def _checksum(file: StoredFile, begin: int, size: int) -> int:
    checksum = 0
    for at in range(begin, begin + size, _READ):
        checksum = zlib.crc32(file.read(at, min(_READ, begin + size - at)), checksum)
    return checksum


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes an archive that `numpy.load` reads.

    Unlike `numpy.savez` it accepts any name, and refuses objects also before NumPy 2.1, which had no
    `allow_pickle=False` and wrote an array of that name.

    Args:
        file: file open for writing.
        arrays: arrays of any shape, by name.

    Raises:
        ValueError: an array holds Python objects, or is masked.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> write_npz(file, {"file": np.arange(3)})
        >>> file.seek(0)
        0
        >>> np.load(file)["file"]
        array([0, 1, 2])
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            if isinstance(array, np.ma.MaskedArray):
                raise ValueError(f"array {name!r} is masked, and its mask would be lost; fill it first")
            # The archive does not have its size before it is written; it may exceed 4 GB.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
