"""`NumpyData`: rows of the arrays in a NumPy file."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments
from ..._errors import FormatError
from ...sources._from_arrays import DataFromArrays
from ...storage import URL, StoredFile, as_url
from ._file_rows import FileRows
from ._npy_format import array_of, members_of

__all__ = ["NumpyData"]


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
