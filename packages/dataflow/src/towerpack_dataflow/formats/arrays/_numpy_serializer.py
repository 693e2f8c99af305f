"""`NumpySerializer`: writes and reads flows as `.npz` files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import FormatError, extra
from ...flow._flow import DataFlow
from ...flow._written_flow import is_steady
from ...sources._from_arrays import DataFromArrays
from ...sources._from_iterable import DataFromList, as_dataflow
from ...storage import URL, StoredFile, as_url, create_file, open_url, snapshot
from .._plain_values import with_progress
from .._record_flow import RecordFlow, Records, open_same
from ._file_rows import FileRows, array_of, holds_objects, members_of, objects_of, write_npz
from ._stacked_datapoints import stack_datapoints

__all__ = ["NumpySerializer", "numpy_version"]

_VERSION: Final = 1
_HEAD = "towerpack"  # name of the header member, in JSON
_RECORDS, _ENDS = "records", "ends"
_OF_TENSORPACK = "buffer"


@final
class NumpySerializer:
    """Writes a flow to a `.npz` file and reads it. The datapoints must fit into memory.

    If the datapoints have arrays and numbers with one type, shape and dtype per component, each component is
    stored as one array, which any program with NumPy reads, and which `load` maps. Other datapoints are
    stored as records of msgpack with arrays (extra `[msgpack]`). In both cases they are restored exactly.
    Nothing is pickled.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import DataFromList
        >>> path = tempfile.mkdtemp() + "/points.npz"
        >>> NumpySerializer.save(DataFromList([[1, 0.5], [2, 1.5]], shuffle=False), path)
        >>> list(NumpySerializer.load(path, shuffle=False))
        [[1, 0.5], [2, 1.5]]
    """

    @staticmethod
    def save(df: Any, path: URL) -> None:
        """Writes one pass of a flow.

        Args:
            df: the flow, or an iterable.
            path: path of the file; missing folders are created. An existing file is replaced.

        Raises:
            ImportError: the datapoints cannot be stacked, and the extra `[msgpack]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint contains an object other than arrays, numbers, strings, bytes, None and
                containers of these.
        """
        flow = as_dataflow(df)
        with create_file(path) as file:
            shown = with_progress(flow, f"reading for {os.path.basename(path)}")
            # A flow may reuse one array.
            datapoints = list(shown if is_steady(flow) else map(snapshot, shown))
            stacked = stack_datapoints(datapoints)
            head, arrays = stacked if stacked is not None else _as_records(datapoints)
            head = {"format": "towerpack-datapoints", "version": _VERSION, "count": len(datapoints), **head}
            text = np.frombuffer(json.dumps(head).encode(), np.uint8)
            write_npz(file, {_HEAD: text, **arrays})

    @staticmethod
    def load(path: URL, shuffle: bool = True, *, allow_pickle: bool = False, verify: bool = True) -> DataFlow:
        """Returns the datapoints of a file written by this class or Tensorpack as an addressable flow.

        Args:
            path: path of the file.
            shuffle: whether each epoch has a different order.
            allow_pickle: whether a file of Tensorpack, which is a pickle, may import and call any object by
                name. Allow it only for trusted files; without it, arrays and Python's builtin types are read.
            verify: whether to check the checksums of the file, which reads it once.

        Raises:
            FormatError: the file is truncated, damaged, of another format or version, or contains a forbidden
                object.
            ImportError: the file has records, and the extra `[msgpack]` is missing.
            OSError: the file is missing or not readable.
        """
        allow_pickle, verify = arguments.flag("allow_pickle", allow_pickle), arguments.flag("verify", verify)
        url = as_url("path", path)
        with open_url(path) as file:
            members = members_of(file, verify=False)
            if _OF_TENSORPACK in members and _HEAD not in members:
                pickled = members_of(file, verify)[_OF_TENSORPACK]
                return DataFromList(_of_tensorpack(file.name, pickled, allow_pickle), shuffle)
            if _head(file.name, members)["kind"] == _RECORDS:
                return RecordFlow(_StoredRecords(url, file.version, verify), shuffle)
        rows: Any = FileRows(url, _components, verify)
        return DataFromArrays(rows, shuffle)


def numpy_version(path: URL) -> int | None:
    """Returns the format version of a file: 0 for Tensorpack's format, `None` for arrays of other programs.

    Raises:
        FormatError: the file is not an archive, or the header is damaged.
        OSError: the file is missing or not readable.
    """
    with open_url(path) as file:
        members = members_of(file, verify=False)
        if _HEAD in members:
            return int(_head(file.name, members)["version"])
        old = members.get(_OF_TENSORPACK)
        return 0 if old is not None and len(members) == 1 and holds_objects(file.name, old) else None


def _as_records(datapoints: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    with extra("msgpack", "writing datapoints that cannot be stacked"):
        from ..encoding._stored_datapoints import pack_record
    records = [pack_record(datapoint) for datapoint in datapoints]
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    return {"kind": _RECORDS}, {_RECORDS: np.frombuffer(b"".join(records), np.uint8), _ENDS: ends}


def _head(name: str, members: dict[str, memoryview]) -> dict[str, Any]:
    if _HEAD not in members:
        raise FormatError(
            f"{name} was not written by NumpySerializer: it has the arrays {', '.join(members)}. "
            f"Read them with NumpyData"
        )
    try:
        head = json.loads(bytes(array_of(name, members[_HEAD])))
        version = head["version"]
    except (ValueError, LookupError, TypeError) as error:
        raise FormatError(f"{name}: the header is damaged: {error!r}") from error
    if version != _VERSION:
        raise FormatError(
            f"{name} has version {version}, and this release reads version {_VERSION}; read it with the "
            f"release of towerpack-dataflow that wrote it"
        )
    if not {"kind", "count"} <= head.keys():
        raise FormatError(f"{name}: the header is damaged: it has {sorted(head)}")
    return dict(head)


def _components(file: StoredFile, verify: bool) -> Any:
    """Returns the array of each component, or a list of Python numbers, in the datapoints' container."""
    members = members_of(file, verify)
    head = _head(file.name, members)
    try:
        arrays = [_array(file, members, f"component_{number}") for number in range(len(head["keys"]))]
        kind = {"list": list, "tuple": tuple, "dict": dict}[head["kind"]]
        values: list[Any] = list(arrays)
        for number in head.get("python", ()):
            values[number] = arrays[number].tolist()
        found = dict(zip(head["keys"], values)) if kind is dict else kind(values)
        if not arrays or any(array.shape[:1] != (head["count"],) for array in arrays):
            raise LookupError(f"{head['count']} datapoints, arrays of {[array.shape for array in arrays]}")
    except (LookupError, TypeError) as error:
        raise FormatError(f"{file.name}: the header does not match the arrays: {error!r}") from error
    return found


def _array(file: StoredFile, members: dict[str, memoryview], name: str) -> Any:
    return array_of(f"{file.name}, array {name!r}", members[name])


def _of_tensorpack(name: str, content: memoryview, allow_pickle: bool) -> list[Any]:
    """Returns the datapoints of an object array of Tensorpack, as lists of components."""
    pickled = objects_of(name, content)
    with extra("msgpack", "reading datapoints of Tensorpack"):
        from ..encoding._stored_datapoints import decode_stored
    try:
        found = decode_stored(pickled, allow_pickle)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    if not isinstance(found, list) and not (isinstance(found, np.ndarray) and found.ndim):
        raise FormatError(f"{name} holds a {type(found).__name__}; expected a list of datapoints")
    return [_as_list(datapoint) for datapoint in found]


def _as_list(datapoint: Any) -> Any:
    """Returns a datapoint as its original list, if NumPy has converted all of them to one array."""
    if not isinstance(datapoint, np.ndarray) or datapoint.dtype != object or not datapoint.ndim:
        return datapoint
    return [_as_array(part) for part in datapoint]


def _as_array(part: Any) -> Any:
    """Returns an object array as its original array of numbers; one of unequal lists is unchanged."""
    if not isinstance(part, np.ndarray) or part.dtype != object:
        return part
    try:
        return np.array(part.tolist())
    except ValueError:
        return part


@final
class _StoredRecords(Records):
    """Datapoints that cannot be stacked, each decoded on demand; a copy maps the file again."""

    def __init__(self, path: str, version: str, verify: bool = False) -> None:
        self._path, self._version = path, version
        self._file = file = open_same(path, version)
        name, members = file.name, members_of(file, verify)
        count = _head(name, members)["count"]
        try:
            records, ends = _array(file, members, _RECORDS), _array(file, members, _ENDS)
            begins = np.concatenate([[0], ends])
            whole = len(ends) == count and begins[-1] == len(records) and (np.diff(begins) >= 0).all()
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(f"{name}: the header does not match the arrays: {error!r}") from error
        if not whole or records.dtype != np.uint8 or ends.dtype != np.int64:
            raise FormatError(f"{name}: {_ENDS!r} lacks end offsets of {count} records; rewrite the file")
        self._content, self._begins = memoryview(records), begins
        self.__qualname__ = f"{name} of {count} records"

    def __len__(self) -> int:
        return len(self._begins) - 1

    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        with extra("msgpack", "reading datapoints that cannot be stacked"):
            from ..encoding._stored_datapoints import unpack_record
        for index in indices:
            begin, end = self._begins[index : index + 2].tolist()
            self._file.check()
            record = bytearray(self._content[begin:end])
            self._file.check()
            try:
                yield unpack_record(record)
            except FormatError as error:
                raise FormatError(f"{self._file.name}, record {index}: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _StoredRecords, (self._path, self._version)
