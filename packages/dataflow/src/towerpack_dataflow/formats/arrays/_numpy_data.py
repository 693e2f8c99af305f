"""`NumpyData`: rows of the arrays in one of NumPy's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments
from ..._errors import FormatError
from ...sources._from_arrays import ArrayRows, DataFromArrays
from ...storage import URL, StoredFile, as_url, is_local, open_url
from .._opened_records import open_same
from ._npy_format import array_of, members_of

__all__ = ["FileRows", "NumpyData"]


@final
class NumpyData(DataFromArrays):
    """Yields the rows of the arrays in a `.npy` or `.npz` file; addressable.

    The file is mapped: what is not read takes no memory, and processes share what is. Members of a `.npz`
    that are compressed (`numpy.savez_compressed`) are read as a whole. Batches are gathered as
    `DataFromArrays` gathers them. A file that is written to while it is read is an error; one that is
    replaced (by a renamed file, as all writers of this package do) is read on as it was.

    Args:
        path: of the file. A datapoint of a `.npy` file is `[row]`, and one of a `.npz` file is a dict of rows
            by the names of the arrays, which have one length.
        shuffle: whether each epoch has an order of its own.
        verify: whether to check the checksums of a `.npz` file, which reads it once when the flow is made;
            a `.npy` file has none.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: the file is cut off, damaged or of another format, or holds Python's objects.
        OSError: the file is missing, or may not be read.
        StorageError: a pass raises it when the file was written to since the flow was made.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.npz"
        >>> np.savez(path, x=np.arange(6.0).reshape(3, 2), label=np.arange(3))
        >>> NumpyData(path, shuffle=False).datapoint(0, 2)
        {'x': array([4., 5.]), 'label': np.int64(2)}
    """

    _holds = ()
    _argument_names = {"path": "_lst"}

    def __init__(self, path: URL, shuffle: bool = True, verify: bool = True) -> None:
        """Maps the file."""
        rows: Any = FileRows(as_url("path", path), _arrays_in, arguments.flag("verify", verify))
        super().__init__(rows, shuffle)


@final
class FileRows(ArrayRows):
    """Rows of a file's arrays; a copy maps the file for itself.

    Args:
        path: of the file.
        find: returns the arrays of an opened file, as `DataFromArrays` takes them; at the top of a module. It
            is also told whether to check their checksums.
        verify: whether to check the checksums. A copy does not: its file must be of the same version.

    Raises:
        ArgumentError: the arrays differ in length.
        FormatError: `find` raises it.
        OSError: the file is missing, or may not be read.
    """

    def __init__(self, path: str, find: Callable[[StoredFile, bool], Any], verify: bool) -> None:
        """Maps the file."""
        self._take(path, open_url(path), find, verify)

    def _take(
        self, path: str, file: StoredFile, find: Callable[[StoredFile, bool], Any], verify: bool
    ) -> None:
        self._path, self._file, self._find = path, file, find
        super().__init__(find(file, verify))
        if not is_local(path):
            file.close()  # its bytes have been read
        self.__qualname__ = f"{file.name} of {len(self)} rows"

    def __getitem__(self, index: Any) -> Any:
        """Returns a row, of a file that is still the same."""
        self._file.check()
        row = super().__getitem__(index)
        self._file.check()
        return row

    def gather(self, rows: range | np.ndarray, out: Sequence[np.ndarray]) -> None:
        """Fills a batch from a file that is still the same."""
        self._file.check()
        super().gather(rows, out)
        self._file.check()

    def __getstate__(self) -> dict[str, Any]:
        """A copy holds the name of the file."""
        return {"path": self._path, "version": self._file.version, "find": self._find}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Maps the file, which must be the same."""
        self._take(state["path"], open_same(state["path"], state["version"]), state["find"], False)


def _arrays_in(file: StoredFile, verify: bool) -> list[npt.NDArray[Any]] | dict[str, npt.NDArray[Any]]:
    """Returns the array of a `.npy` file in a list, or those of a `.npz` file by their names.

    Raises:
        FormatError: the file is neither, is cut off or damaged, holds Python's objects or a number alone.
    """
    if bytes(file.read(0, min(2, file.size))) != b"PK":
        found: Any = [array_of(file.name, file.read())]
    else:
        members = members_of(file, verify)
        found = {name: array_of(f"{file.name}, array {name!r}", content) for name, content in members.items()}
        if not found:
            raise FormatError(f"{file.name} holds no array")
    for array in found.values() if isinstance(found, dict) else found:
        if not np.ndim(array):
            raise FormatError(f"{file.name} holds a number, which has no rows: {array!r}")
    return found  # type: ignore[no-any-return]
