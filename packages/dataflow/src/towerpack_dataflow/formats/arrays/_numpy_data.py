"""`NumpyData`: rows of the arrays in one of NumPy's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import FormatError
from ...sources._from_arrays import ArrayRows, DataFromArrays
from ...storage import URL, StoredFile, open_url
from .._opened_records import open_same
from ._npy_format import array_of, members_of

__all__ = ["FileRows", "NumpyData"]


@final
class NumpyData(DataFromArrays):
    """Yields the rows of the arrays in a `.npy` or `.npz` file; addressable.

    The file is mapped: what is not read takes no memory, and processes share what is. Members of a `.npz`
    that are compressed (`numpy.savez_compressed`) are read as a whole. Batches are gathered as
    `DataFromArrays` gathers them.

    Args:
        path: of the file. A datapoint of a `.npy` file is `[row]`, and one of a `.npz` file is a dict of rows
            by the names of the arrays, which have one length.
        shuffle: whether each epoch has an order of its own.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: the file is cut off, damaged or of another format, or holds Python's objects.
        OSError: the file is missing, or may not be read.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.npz"
        >>> np.savez(path, x=np.arange(6.0).reshape(3, 2), label=np.arange(3))
        >>> NumpyData(path, shuffle=False).datapoint(0, 2)
        {'x': array([4., 5.]), 'label': np.int64(2)}
    """

    _holds = ()
    _argument_names = {"path": "_lst"}

    def __init__(self, path: URL, shuffle: bool = True) -> None:
        """Maps the file."""
        rows: Any = FileRows(os.fspath(path), _arrays_in)
        super().__init__(rows, shuffle)


@final
class FileRows(ArrayRows):
    """Rows of a file's arrays; a copy maps the file for itself.

    Args:
        path: of the file.
        find: returns the arrays of an opened file, as `DataFromArrays` takes them; at the top of a module.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: `find` raises it.
        OSError: the file is missing, or may not be read.
    """

    def __init__(self, path: str, find: Callable[[StoredFile], Any]) -> None:
        """Maps the file."""
        with open_url(path) as file:
            self._take(path, file, find)

    def _take(self, path: str, file: StoredFile, find: Callable[[StoredFile], Any]) -> None:
        self._path, self._version, self._find = path, file.version, find
        super().__init__(find(file))
        self.__qualname__ = f"{file.name} of {len(self)} rows"

    def __getstate__(self) -> dict[str, Any]:
        """A copy holds the name of the file."""
        return {"path": self._path, "version": self._version, "find": self._find}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Maps the file, which must be the same."""
        with open_same(state["path"], state["version"]) as file:
            self._take(state["path"], file, state["find"])


def _arrays_in(file: StoredFile) -> list[npt.NDArray[Any]] | dict[str, npt.NDArray[Any]]:
    """Returns the array of a `.npy` file in a list, or those of a `.npz` file by their names.

    Raises:
        FormatError: the file is neither, is cut off or damaged, holds Python's objects or a number alone.
    """
    if bytes(file.read(0, min(2, file.size))) != b"PK":
        found: Any = [array_of(file.name, file.read())]
    else:
        members = members_of(file)
        found = {name: array_of(f"{file.name}, array {name!r}", content) for name, content in members.items()}
        if not found:
            raise FormatError(f"{file.name} holds no array")
    for array in found.values() if isinstance(found, dict) else found:
        if not np.ndim(array):
            raise FormatError(f"{file.name} holds a number, which has no rows: {array!r}")
    return found  # type: ignore[no-any-return]
