"""`HDF5Data` and `HDF5Serializer`: rows of the arrays in an HDF5 file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError, ComponentError, DataFlowError, FormatError, extra
from ...flow._flow import DataFlow
from ...sources._from_iterable import as_dataflow
from ...storage import URL, StoredFile, create_file, local_path, open_url
from .._progress import with_progress
from .._record_flow import OpenedRecords, RecordFlow, open_same
from ._hdf5_writing import KIND, KIND_OF_ROWS, VERSION, WRITTEN, write_rows, written_paths

__all__ = ["HDF5Data", "HDF5Serializer", "hdf5_version"]

# The errors that h5py raises for damage inside a file.
_BROKEN = (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError)


@final
class HDF5Data(RecordFlow):
    """Yields the rows of arrays in an HDF5 file; addressable. Each row is read on demand.

    Args:
        path: path of the file.
        data_paths: paths of the arrays in the file; their lengths must be equal. A datapoint is a list with a
            row of each; for a file of `HDF5Serializer`, it has the types of the written datapoints.
        shuffle: whether each epoch has a different order.

    Raises:
        ArgumentError: `data_paths` is empty, or the arrays differ in length.
        ComponentError: the file has no such array.
        FormatError: the file is not an HDF5 file, or is truncated or damaged.
        ImportError: the extra `[hdf5]` is missing.
        OSError: the file is missing or not readable.
    """

    def __init__(self, path: URL, data_paths: Sequence[str], shuffle: bool = True) -> None:
        """Reads the structure of the file and closes it."""
        super().__init__(_HDF5Rows(path, data_paths), shuffle)


@final
class HDF5Serializer:
    """Writes a flow of arrays of one shape to an HDF5 file, and reads it."""

    @staticmethod
    def save(df: Any, path: URL, data_paths: Sequence[str]) -> None:
        """Writes one pass of a flow in blocks of datapoints with checksums.

        Args:
            df: the flow, or an iterable; datapoints are lists, or all tuples, of arrays or numbers. Each
                component has the type, shape and dtype of the first one.
            path: path of the file; missing folders are created. An existing file is replaced.
            data_paths: name of the array of each component in the file.

        Raises:
            ArgumentError: the number of components differs from the number of names, or a component is
                neither an array of numbers nor a number, or differs from the first one in type, shape or
                dtype.
            ImportError: the extra `[hdf5]` is missing.
            OSError: the file cannot be written.
        """
        names = _checked_paths(data_paths)
        with extra("hdf5", "writing HDF5 files"):
            import h5py  # noqa: F401
        with create_file(path) as file:
            write_rows(file, names, with_progress(as_dataflow(df), f"writing {os.path.basename(path)}"))

    @staticmethod
    def load(path: URL, data_paths: Sequence[str] | None = None, shuffle: bool = True) -> DataFlow:
        """Returns the rows of a file as an addressable flow.

        Args:
            path: path of the file.
            data_paths: paths of the arrays; by default, those passed to `save`.
            shuffle: whether each epoch has a different order.

        Raises:
            ArgumentError: the names of the arrays are missing, since the file was not written by `save`.
            ComponentError: the file has no such array.
            FormatError: the file is not an HDF5 file, or is truncated or damaged, or has another version.
            ImportError: the extra `[hdf5]` is missing.
            OSError: the file is missing or not readable.
        """
        if data_paths is None:
            name = local_path(path)
            with _opened(name) as file, _named(f"{name}: the header"):
                version, data_paths = file.attrs.get(WRITTEN), written_paths(file.attrs)
            if version is None or data_paths is None:
                raise ArgumentError(f"{name} was not written by HDF5Serializer; pass data_paths")
            if version != VERSION:
                raise FormatError(f"{name} has version {version}, and this release reads version {VERSION}")
        return HDF5Data(path, data_paths, shuffle)


@final
class _HDF5Rows(OpenedRecords):
    """Rows of arrays in a file, as lists."""

    def __init__(self, path: URL, data_paths: Sequence[str]) -> None:
        super().__init__(local_path(path))
        self._names = _checked_paths(data_paths)
        with open_url(self._path) as stored:
            self._version = stored.version
        with _opened(self._path) as file, _named(self._path):
            lengths = {name: self._array(file, name).shape[:1] for name in self._names}
        if len(set(lengths.values())) > 1 or () in lengths.values():
            raise ArgumentError(f"{self._path}: arrays must have equal lengths; found {lengths}")
        [self._length] = next(iter(lengths.values()))
        self.__qualname__ = f"{self._path} of {self._length} rows"

    def __len__(self) -> int:
        return int(self._length)

    def _record(self, index: int) -> Any:
        stored, kind, readers = self._file()
        with _named(f"{self._path}, row {index}"):
            row = kind(read(index) for read in readers)
        stored.check()
        return row

    def _open(self) -> tuple[StoredFile, type, list[Callable[[int], Any]]]:
        stored = open_same(self._path, self._version)
        file = _opened(self._path)
        with _named(self._path):
            kind = tuple if file.attrs.get(KIND_OF_ROWS) == b"tuple" else list
            return stored, kind, [_reader(self._array(file, name)) for name in self._names]

    def _array(self, file: Any, name: str) -> Any:
        array = None
        if name in file:
            array = file[name]  # get() treats a damaged array as a missing one
        if not hasattr(array, "shape"):
            raise ComponentError(f"{self._path} has no array {name!r}; it has {', '.join(file)}")
        return array


def _reader(array: Any) -> Callable[[int], Any]:
    """Returns a function that reads a row of an array with the type of the written datapoint."""
    kind = array.attrs.get(KIND)
    if kind == b"python":
        return lambda index: array[index].item()
    if kind == b"array" and array.ndim == 1:
        return lambda index: np.asarray(array[index], array.dtype)
    return array.__getitem__  # type: ignore[no-any-return]


def _opened(path: str) -> Any:
    with extra("hdf5", f"reading {path}"):
        import h5py
    with open(path, "rb"):  # the system's error, if it is missing or not readable
        pass
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        raise FormatError(f"{path} is not an HDF5 file, or is truncated or damaged ({error})") from error


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Raises errors of h5py in a damaged file as an error that names `what`."""
    try:
        yield
    except DataFlowError:
        raise
    except _BROKEN as error:
        raise FormatError(
            f"{what} cannot be read: the file is damaged; copy or write it again ({error})"
        ) from error


def hdf5_version(path: URL) -> int | None:
    """Returns the version of a file's format; `None` for a file of another program.

    Raises:
        FormatError: the file is not an HDF5 file, or is truncated or damaged.
        ImportError: the extra `[hdf5]` is missing.
        OSError: the file is missing or not readable.
    """
    name = local_path(path)
    with _opened(name) as file, _named(f"{name}: the header"):
        version = file.attrs.get(WRITTEN)
        return None if version is None else int(version)


def _checked_paths(data_paths: Sequence[str]) -> list[str]:
    if isinstance(data_paths, str) or not data_paths or not all(isinstance(name, str) for name in data_paths):
        raise ArgumentError(f"data_paths is a list of names of arrays; received {data_paths!r}")
    return list(data_paths)
