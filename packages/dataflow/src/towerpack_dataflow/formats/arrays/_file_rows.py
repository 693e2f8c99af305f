"""`FileRows`: rows of the arrays in a mapped file; `NumpyData` yields those of NumPy files."""

from __future__ import annotations

import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments
from ..._errors import DataFlowError, FormatError
from ...flow._columns import assembled
from ...sources._from_arrays import ArrayRows, DataFromArrays
from ...storage import URL, StoredFile, StoredStream, as_url, is_local, open_url
from .._record_flow import open_same

__all__ = ["FileRows", "NumpyData", "array_of", "holds_objects", "members_of", "objects_of", "write_npz"]

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


_READ_DIRECTLY = 2**12  # bytes of a row above which a system call costs no more than the copy


@final
class FileRows(ArrayRows):
    """Rows of a file's arrays; each copy maps the file itself.

    The system kills a process that accesses mapped memory of a truncated file. So rows of 4 KiB and more, and
    consecutive rows, are read instead; others are copied between two checks of the file's size and time.

    Args:
        path: path of the file.
        find: returns the arrays of an opened file in the form required by `DataFromArrays`; a module-level
            function. Its second argument is whether to check their checksums.
        verify: whether to check the checksums. A copy does not: its file must have the same version.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: raised by `find`.
        OSError: the file is missing or not readable.
    """

    def __init__(self, path: str, find: Callable[[StoredFile, bool], Any], verify: bool) -> None:
        """Maps the file."""
        self._take(path, open_url(path), find, verify)

    def _take(
        self, path: str, file: StoredFile, find: Callable[[StoredFile, bool], Any], verify: bool
    ) -> None:
        self._path, self._file, self._find = path, file, find
        super().__init__(find(file, verify))
        self.__qualname__ = f"{file.name} of {len(self)} rows"
        self._begins: list[int | None] = [None] * len(self._components)
        if is_local(path):
            self._find_begins()
        else:
            file.close()  # its bytes are already read

    def _find_begins(self) -> None:
        low = _address(np.frombuffer(self._file.map(), np.uint8)) if self._file.size else 0
        for number, component in enumerate(self._components):
            begin = _address(component.values) - low if _is_in_order(component.values) else -1
            if 0 <= begin < self._file.size:  # decompressed arrays are outside the file
                self._begins[number] = begin

    def __getitem__(self, index: Any) -> Any:
        """Returns a row after checking that the file is unchanged."""
        self._file.check()
        values = [self._row(number, index) for number in range(len(self._components))]
        self._file.check()
        return assembled(self._kind, [component.key for component in self._components], values)

    def _row(self, number: int, index: int) -> Any:
        component, begin = self._components[number], self._begins[number]
        array = component.values
        if begin is None or array.ndim < 2 or array.strides[0] < _READ_DIRECTLY:
            return component.row(index)
        row = np.empty(array.shape[1:], array.dtype)
        self._read(begin + index * array.strides[0], row)
        return row

    def gather(self, rows: range | np.ndarray, out: Sequence[np.ndarray]) -> None:
        """Fills a batch after checking that the file is unchanged."""
        self._file.check()
        for number, target in enumerate(out):
            component, begin = self._components[number], self._begins[number]
            size = target.nbytes // len(target) if len(target) else 0
            if begin is None or not size or not target.flags.c_contiguous:
                component.gather(rows, target)
            elif isinstance(rows, range) and rows.step == 1:
                self._read(begin + rows.start * size, target)
            elif size >= _READ_DIRECTLY:
                for place, row in zip(target, rows):
                    self._read(begin + int(row) * size, place)
            else:
                component.gather(rows, target)
        self._file.check()

    def _read(self, offset: int, target: np.ndarray) -> None:
        self._file.readinto(target.reshape(-1).view(np.uint8).data, offset)

    def __getstate__(self) -> dict[str, Any]:
        """Stores the name of the file, not its content."""
        return {"path": self._path, "version": self._file.version, "find": self._find}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Maps the file, which must be unchanged."""
        self._take(state["path"], open_same(state["path"], state["version"]), state["find"], False)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _is_in_order(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.flags.c_contiguous and values.nbytes > 0


@final
class NumpyData(DataFromArrays):
    """Yields the rows of the arrays in a `.npy` or `.npz` file; addressable.

    The file is mapped: unread rows take no memory, and processes share the others. Compressed members of a
    `.npz` (`numpy.savez_compressed`) are read completely. Batches are gathered as in `DataFromArrays`.
    Writing to the file while it is read is an error; after a replacement (by a renamed file, as with all
    writers of this package) the flow continues to read the old file.

    Args:
        path: path of the file. A datapoint of a `.npy` file is `[row]`; one of a `.npz` file is a dict of
            rows by the names of the arrays, which must have equal lengths.
        shuffle: whether each epoch has a different order.
        verify: whether to check the checksums of a `.npz` file, which reads it once when the flow is created;
            a `.npy` file has none.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: the file is truncated, damaged or of another format, or holds Python objects.
        OSError: the file is missing or not readable.
        StorageError: the file was written to since the flow was created; raised while iterating.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.npz"
        >>> np.savez(path, x=np.arange(6.0).reshape(3, 2), label=np.arange(3))
        >>> NumpyData(path, shuffle=False).datapoint(0, 2)
        {'x': array([4., 5.]), 'label': np.int64(2)}
    """

    def __init__(self, path: URL, shuffle: bool = True, verify: bool = True) -> None:
        """Maps the file."""
        rows: Any = FileRows(as_url("path", path), _arrays_in, arguments.flag("verify", verify))
        super().__init__(rows, shuffle)
        self._path = rows  # for `repr`


def _arrays_in(file: StoredFile, verify: bool) -> list[npt.NDArray[Any]] | dict[str, npt.NDArray[Any]]:
    """Returns the array of a `.npy` file in a list, or those of a `.npz` file by name.

    Raises:
        FormatError: the file is neither of these, is truncated or damaged, or holds Python objects or a
            single number.
    """
    if bytes(file.read(0, min(2, file.size))) != b"PK":
        found: Any = [array_of(file.name, file.map())]
    else:
        members = members_of(file, verify)
        found = {name: array_of(f"{file.name}, array {name!r}", content) for name, content in members.items()}
        if not found:
            raise FormatError(f"{file.name} holds no array")
    for array in found.values() if isinstance(found, dict) else found:
        if not np.ndim(array):
            raise FormatError(f"{file.name} holds a single number, which has no rows: {array!r}")
    return found  # type: ignore[no-any-return]
