"""`FileRows`: rows of the arrays in a mapped file; `NumpyData` yields those of NumPy files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments
from ..._errors import FormatError
from ...flow._columns import assembled
from ...sources._from_arrays import ArrayRows, DataFromArrays
from ...storage import URL, StoredFile, as_url, is_local, open_url
from .._record_flow import open_same
from ._npy_format import array_of, members_of

__all__ = ["FileRows", "NumpyData"]

_READ = 2**12  # bytes of a row above which a system call costs no more than the copy


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
        if begin is None or array.ndim < 2 or array.strides[0] < _READ:
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
            elif size >= _READ:
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
