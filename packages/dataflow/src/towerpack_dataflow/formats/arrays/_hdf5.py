"""`HDF5Data` and `HDF5Serializer`: rows of the arrays in an HDF5 file, written exactly or with an error."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, final

import numpy as np

from ..._errors import ArgumentError, ComponentError, DataFlowError, FormatError, extra
from ...flow._flow import DataFlow
from ...sources._from_iterable import as_dataflow
from ...storage import URL, StoredFile, create_file, local_path, open_url
from .._plain_values import with_progress
from .._record_flow import OpenedRecords, RecordFlow, open_same
from ._stacked_datapoints import PLAIN_ARRAYS

__all__ = [
    "KIND",
    "KIND_OF_ROWS",
    "VERSION",
    "WRITTEN",
    "HDF5Data",
    "HDF5Serializer",
    "hdf5_version",
    "write_rows",
    "written_paths",
]

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

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.h5"
        >>> HDF5Serializer.save([[0.5, 1], [1.5, 2]], path, ["x", "label"])
        >>> list(HDF5Data(path, ["label"], shuffle=False))
        [[1], [2]]
    """

    def __init__(self, path: URL, data_paths: Sequence[str], shuffle: bool = True) -> None:
        """Reads the structure of the file and closes it."""
        super().__init__(_HDF5Rows(path, data_paths), shuffle)


@final
class HDF5Serializer:
    """Writes a flow of arrays of one shape to an HDF5 file, and reads it.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.h5"
        >>> HDF5Serializer.save([[0.5, 1], [1.5, 2]], path, ["x", "label"])
        >>> list(HDF5Serializer.load(path, ["x", "label"], shuffle=False))
        [[0.5, 1], [1.5, 2]]
    """

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


VERSION: Final = 1
WRITTEN: Final = "towerpack_version"
KIND_OF_ROWS: Final = "towerpack_rows"  # of the file: b"list" or b"tuple"
KIND: Final = "towerpack_kind"  # of an array: b"array", b"scalar" or b"python"
_PATHS: Final = "towerpack_data_paths"
_CHUNK = 2**14  # bytes per checksum and per read, for smaller rows
_BLOCK = 2**20  # bytes to collect before writing
_NUMBERS = "biufc"
_OF_PYTHON = frozenset({bool, int, float, complex})


def write_rows(stream: IO[bytes], names: list[str], datapoints: Iterable[Any]) -> None:
    """Writes datapoints to a new HDF5 file, with a checksum of each block of rows.

    Args:
        stream: an empty file, open for reading and writing.
        names: name of the array of each component.
        datapoints: lists or tuples of arrays or numbers.

    Raises:
        ArgumentError: a name is invalid, or a datapoint has another type or cannot be written exactly.
        OSError: the stream cannot be written.
    """
    import h5py

    _check_names(names)
    sink = _Sink(stream)
    try:
        # From this version of the format on, all data except variable-length text has a checksum.
        with h5py.File(sink, "w", libver=("v110", "v110")) as file:
            file.attrs[WRITTEN] = VERSION
            file.attrs[_PATHS] = np.array([name.encode() for name in names])
            _write(file, names, datapoints, sink.check)
    finally:
        sink.check()


def written_paths(attributes: Any) -> list[str] | None:
    """Returns the names passed to `write_rows`; `None` for a file of another program."""
    names = attributes.get(_PATHS)
    if names is None:
        return None
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _check_names(names: list[str]) -> None:
    parts = [tuple(name.strip("/").split("/")) for name in names]
    for name, own in zip(names, parts):
        encodable = name == name.encode(errors="replace").decode()
        if "\0" in name or not encodable or {"", ".", ".."} & {*own}:
            raise ArgumentError(f"data_paths has {name!r}; expected names as strings, with / between groups")
        if parts.count(own) > 1:
            raise ArgumentError(f"data_paths has {name!r} twice; expected distinct names")


def _write(file: Any, names: list[str], datapoints: Iterable[Any], check: Callable[[], None]) -> None:
    columns: list[_HDF5Column] = []
    kind: Any = None
    for number, datapoint in enumerate(datapoints):
        kind = kind or (tuple if isinstance(datapoint, tuple) else list)
        if type(datapoint) is not kind or len(datapoint) != len(names):
            raise ArgumentError(
                f"datapoint {number} must be a {kind.__name__} of {len(names)} components; received "
                f"{type(datapoint).__name__} {datapoint!r:.60}"
            )
        if not columns:
            columns = [_HDF5Column(file, k, name, datapoint[k]) for k, name in enumerate(names)]
        for column, value in zip(columns, datapoint):
            column.add(value, number)
        check()
    file.attrs[KIND_OF_ROWS] = np.bytes_((kind or list).__name__)
    for name in names if kind is None else ():
        _new_array(file, name, 0, (), np.dtype(np.float64))
    for column in columns:
        column.flush()


@final
class _HDF5Column:
    """One component of all datapoints, and its array in the file."""

    def __init__(self, file: Any, position: int, name: str, first: Any) -> None:
        self._where = f"component {position} ({name})"
        self._kind, array = self._taken(first, 0)
        rows = max(1, _CHUNK // max(1, array.nbytes))
        blocks = max(1, _BLOCK // max(_CHUNK, array.nbytes))
        self._block = np.empty((rows * blocks, *array.shape), array.dtype)
        self._filled = 0
        self._array = _new_array(file, name, rows, array.shape, array.dtype)
        if self._array.dtype != array.dtype:
            raise ArgumentError(f"{self._where} has {array.dtype}, which HDF5 stores as {self._array.dtype}")
        self._array.attrs[KIND] = np.bytes_(self._kind)

    def add(self, value: Any, number: int) -> None:
        """Copies the next value."""
        kind, array = self._taken(value, number)
        block = self._block
        if kind != self._kind or array.shape != block.shape[1:] or array.dtype != block.dtype:
            raise ArgumentError(
                f"{self._where} is {_described(self._kind, block[0])} in datapoint 0, and "
                f"{_described(kind, array)} in datapoint {number}; an HDF5 array has one dtype and shape. "
                f"LMDBSerializer accepts any"
            )
        block[self._filled] = array
        self._filled += 1
        if self._filled == len(block):
            self.flush()

    def flush(self) -> None:
        """Writes the pending values."""
        end = len(self._array)
        self._array.resize(end + self._filled, axis=0)
        self._array[end:] = self._block[: self._filled]
        self._filled = 0

    def _taken(self, value: Any, number: int) -> tuple[str, np.ndarray]:
        kind = _kind_of(value)
        array = None if kind is None else np.asarray(value)
        if kind is None or array is None or array.dtype.kind not in _NUMBERS:
            found = f"an array of {array.dtype}" if array is not None else type(value).__name__
            raise ArgumentError(
                f"{self._where} of datapoint {number} is {found}; HDF5 arrays are of numbers. "
                f"Convert it to an array with a numeric dtype of NumPy, or use LMDBSerializer"
            )
        return kind, array


def _kind_of(value: Any) -> str | None:
    """Returns the kind that converts a row of an array back to `value`; `None` if impossible."""
    if type(value) in _OF_PYTHON:
        return "python"
    if isinstance(value, np.generic):
        return "scalar"
    return "array" if type(value) in PLAIN_ARRAYS else None


def _described(kind: str, value: np.ndarray) -> str:
    if kind == "array":
        return f"an array of {value.dtype} with shape {value.shape}"
    return f"a {'Python' if kind == 'python' else 'NumPy'} number, {value.dtype},"


def _new_array(file: Any, name: str, rows: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    chunk = (max(1, rows), *(max(1, axis) for axis in shape))
    try:
        return file.create_dataset(
            name,
            (0, *shape),
            dtype,
            # An axis of length 0 must be resizable.
            maxshape=(None, *(axis or None for axis in shape)),
            chunks=chunk,
            fletcher32=True,
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ArgumentError(
            f"data_paths has {name!r}; HDF5 cannot create an array of {dtype} with shape {shape} "
            f"under this name ({error})"
        ) from error


@final
class _Sink(io.RawIOBase):
    """Passes the writes of HDF5 to a file, and records errors.

    HDF5 2.0 crashes the process with SIGSEGV when a write fails while a file is closed. So errors are hidden
    from HDF5.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the first error.

        Raises:
            OSError: a write failed.
        """
        if self._error is not None:
            raise self._error

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        found: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        return found

    def write(self, content: Any) -> int:
        self._tried(lambda: self._stream.write(content))
        return memoryview(content).nbytes

    def truncate(self, size: int | None = None) -> int:
        self._tried(lambda: self._stream.truncate(size))
        return self._stream.tell() if size is None else size

    def flush(self) -> None:
        if not self.closed:
            self._tried(self._stream.flush)

    def _tried(self, call: Callable[[], Any]) -> None:
        if self._error is None:
            try:
                call()
            except OSError as error:
                self._error = error
