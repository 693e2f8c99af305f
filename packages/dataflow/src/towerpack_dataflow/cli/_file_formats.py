"""The formats that commands know, by the ends of files' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, final

from ..flow._flow import DataFlow
from ..formats.arrays import HDF5Serializer, NumpyData, NumpySerializer
from ..formats.lmdb import LMDBSerializer
from ..formats.tables import (
    CSVData,
    CSVSerializer,
    JSONLData,
    JSONLSerializer,
    ParquetData,
    ParquetSerializer,
    SVMLightData,
)
from ..formats.tar import TarData, write_tar
from ..formats.tfrecord import TFRecordSerializer
from ._state_commands import CommandError

__all__ = ["FILE_HELP", "FileFormat", "format_of"]


@final
@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    Args:
        name: for people.
        suffixes: of files' names.
        read: makes a flow, in the file's order, of a path.
        write: writes a flow to a path; None where nothing here does.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[str], DataFlow]
    write: Callable[[Any, str], None] | None = None


def format_of(path: str) -> FileFormat:
    """Returns the format of a file, by the end of its name.

    Raises:
        CommandError: no format has this end.
    """
    for known in _FORMATS:
        if path.lower().endswith(known.suffixes):
            return known
    raise CommandError(f"{path}: no format has this end. Known: {FILE_HELP}")


def _read_npz(path: str) -> DataFlow:
    try:
        return NumpySerializer.load(path, shuffle=False)
    except ValueError:  # arrays that another program has saved
        return NumpyData(path, shuffle=False)


def _named(flow: Any) -> tuple[list[str], Iterator[Any]]:
    """Returns names of the components of a flow, and its datapoints, from the first on."""
    datapoints = iter(flow)
    first = next(datapoints, None)
    if first is None:
        raise CommandError("there are no datapoints, whose components would be the columns")
    names = list(first) if isinstance(first, dict) else [f"component_{place}" for place in range(len(first))]
    return [str(name) for name in names], chain([first], datapoints)


def _write_csv(flow: Any, path: str) -> None:
    names, whole = _named(flow)
    CSVSerializer.save(whole, path, names)


def _write_hdf5(flow: Any, path: str) -> None:
    names, whole = _named(flow)
    rows = (list(datapoint.values()) if isinstance(datapoint, dict) else datapoint for datapoint in whole)
    HDF5Serializer.save(rows, path, names)


_FORMATS = (
    FileFormat(
        "LMDB", (".lmdb", ".mdb"), lambda path: LMDBSerializer.load(path, shuffle=False), LMDBSerializer.save
    ),
    FileFormat("TFRecord", (".tfrecord", ".tfrecords"), TFRecordSerializer.load, TFRecordSerializer.save),
    FileFormat("NumPy archive", (".npz",), _read_npz, NumpySerializer.save),
    FileFormat("NumPy array", (".npy",), lambda path: NumpyData(path, shuffle=False)),
    FileFormat("HDF5", (".h5", ".hdf5"), lambda path: HDF5Serializer.load(path, shuffle=False), _write_hdf5),
    FileFormat("Parquet", (".parquet",), ParquetData, ParquetSerializer.save),
    FileFormat("CSV", (".csv",), CSVData, _write_csv),
    FileFormat("lines of JSON", (".jsonl",), JSONLData, JSONLSerializer.save),
    FileFormat("SVMLight", (".svm", ".svmlight", ".libsvm"), lambda path: SVMLightData(path, shuffle=False)),
    FileFormat("tar", (".tar",), TarData, write_tar),
)

FILE_HELP = ", ".join(suffix for known in _FORMATS for suffix in known.suffixes)
