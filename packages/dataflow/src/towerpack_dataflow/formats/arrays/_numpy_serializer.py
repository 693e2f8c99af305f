"""`NumpySerializer`: a flow as a `.npz` file, and back."""

from __future__ import annotations

import json
import os
from typing import Any, Final, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import FormatError, extra
from ...flow._flow import DataFlow
from ...sources._as_dataflow import as_dataflow
from ...sources._from_arrays import DataFromArrays
from ...sources._from_list import DataFromList
from ...storage import URL, create_file, open_url
from .._progress import with_progress
from ._npy_format import array_of, members_of, objects_of

__all__ = ["NumpySerializer"]

_VERSION: Final = 1
_HEAD = "towerpack"  # what the file is: JSON
_RECORDS, _ENDS = "records", "ends"
_OF_TENSORPACK = "buffer"


@final
class NumpySerializer:
    """Writes a flow to a `.npz` file, and reads it. For what fits into memory, in which the file is made.

    Datapoints that stack become one array for each component, which any program with NumPy reads, and which
    `load` maps. Others become records of msgpack with arrays (extra `[msgpack]`). Nothing is pickled.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import DataFromList
        >>> path = tempfile.mkdtemp() + "/points.npz"
        >>> NumpySerializer.save(DataFromList([[1, 0.5], [2, 1.5]], shuffle=False), path)
        >>> list(NumpySerializer.load(path, shuffle=False))
        [[np.int64(1), np.float64(0.5)], [np.int64(2), np.float64(1.5)]]
    """

    @staticmethod
    def save(df: Any, path: URL) -> None:
        """Writes one pass of a flow.

        Args:
            df: the flow, or what can stand in its place.
            path: of the file. One that exists is replaced.

        Raises:
            ImportError: the datapoints do not stack, and the extra `[msgpack]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint holds something that is neither array, number, string, bytes, None nor a
                container of these.
        """
        datapoints = list(with_progress(as_dataflow(df), f"reading for {os.path.basename(path)}"))
        stacked = _stacked(datapoints)
        head, arrays = stacked if stacked is not None else _as_records(datapoints)
        head = {"format": "towerpack-datapoints", "version": _VERSION, "count": len(datapoints), **head}
        text = np.frombuffer(json.dumps(head).encode(), np.uint8)
        with create_file(path) as file:
            np.savez(file, allow_pickle=False, **{_HEAD: text, **arrays})

    @staticmethod
    def load(path: URL, shuffle: bool = True, *, allow_pickle: bool = False) -> DataFlow:
        """Returns the datapoints of a file that this class or Tensorpack wrote, as an addressable flow.

        Args:
            path: of the file.
            shuffle: whether each epoch has an order of its own.
            allow_pickle: whether a file of Tensorpack, which is a pickle, may import and call what it names.
                Allow it for files of your own; without it, arrays and Python's builtin types are read.

        Raises:
            FormatError: the file is cut off, damaged, of another format or version, or holds what is not
                allowed.
            ImportError: the file has records, and the extra `[msgpack]` is missing.
            OSError: the file is missing, or may not be read.
        """
        allow_pickle = arguments.flag("allow_pickle", allow_pickle)
        with open_url(path) as file:
            members = members_of(file)
            if _OF_TENSORPACK in members and _HEAD not in members:
                pickled = objects_of(file.name, members[_OF_TENSORPACK])
                with extra("msgpack", "reading datapoints of Tensorpack"):
                    from ..encoding import decode_stored
                return DataFromList([*decode_stored(pickled, allow_pickle)], shuffle)
            head = _head(file.name, members)
            arrays = {
                name: array_of(file.name, content) for name, content in members.items() if name != _HEAD
            }
            return _flow(file.name, head, arrays, shuffle)


def _stacked(datapoints: list[Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Returns one array for each component; None if the datapoints are not alike."""
    if not datapoints or len({type(datapoint) for datapoint in datapoints}) > 1:
        return None
    kind = type(datapoints[0])
    if kind not in {list, tuple, dict}:
        return None
    keys = list(datapoints[0]) if kind is dict else list(range(len(datapoints[0])))
    if any((list(other) if kind is dict else list(range(len(other)))) != keys for other in datapoints):
        return None
    if not keys or not all(isinstance(key, (str, int)) for key in keys):
        return None
    arrays = {}
    for number, key in enumerate(keys):
        values = [datapoint[key] for datapoint in datapoints]
        if len({(np.shape(value), np.asarray(value).dtype) for value in values}) > 1:
            return None
        array = np.stack([np.asarray(value) for value in values])
        if array.dtype.kind not in "biufcmM":
            return None
        arrays[f"component_{number}"] = array
    return {"kind": kind.__name__, "keys": keys}, arrays


def _as_records(datapoints: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    with extra("msgpack", "writing datapoints that do not stack"):
        from ..encoding import pack_record
    records = [pack_record(datapoint) for datapoint in datapoints]
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    return {"kind": _RECORDS}, {_RECORDS: np.frombuffer(b"".join(records), np.uint8), _ENDS: ends}


def _head(name: str, members: dict[str, memoryview]) -> dict[str, Any]:
    if _HEAD not in members:
        raise FormatError(
            f"{name} was not written by NumpySerializer: it has the arrays {', '.join(members)}. "
            f"NumpyData reads those"
        )
    try:
        head = json.loads(bytes(array_of(name, members[_HEAD])))
        version = head["version"]
    except (ValueError, LookupError, TypeError) as error:
        raise FormatError(f"{name}: what it says of itself is damaged: {error!r}") from error
    if version != _VERSION:
        raise FormatError(
            f"{name} has version {version}, and this release reads version {_VERSION}; read it with the "
            f"release of towerpack-dataflow that wrote it"
        )
    return dict(head)


def _flow(name: str, head: dict[str, Any], arrays: dict[str, Any], shuffle: bool) -> DataFlow:
    try:
        if head["kind"] == _RECORDS:
            return DataFromList(_decoded(name, arrays[_RECORDS], arrays[_ENDS]), shuffle)
        components = [arrays[f"component_{number}"] for number in range(len(head["keys"]))]
        if head["kind"] == "dict":
            return DataFromArrays(dict(zip(head["keys"], components)), shuffle)
        return DataFromArrays(tuple(components) if head["kind"] == "tuple" else components, shuffle)
    except (LookupError, TypeError) as error:
        raise FormatError(f"{name}: what it says of itself does not fit its arrays: {error!r}") from error


def _decoded(name: str, records: Any, ends: Any) -> list[Any]:
    with extra("msgpack", "reading datapoints that do not stack"):
        from ..encoding import unpack_record
    content, begin, found = memoryview(records), 0, []
    for number, end in enumerate(ends.tolist()):
        if not begin <= end <= len(content):
            raise FormatError(
                f"{name}, record {number}: it ends at byte {end} of {len(content)}; write it again"
            )
        try:
            found.append(unpack_record(bytearray(content[begin:end])))
        except FormatError as error:
            raise FormatError(f"{name}, record {number}: {error}") from error
        begin = end
    return found
