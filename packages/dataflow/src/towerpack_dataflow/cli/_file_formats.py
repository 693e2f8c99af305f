"""The file formats of the commands, by file extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, final

from ..flow._flow import DataFlow
from ..formats.arrays._file_rows import NumpyData
from ..formats.arrays._hdf5 import HDF5Serializer, hdf5_version
from ..formats.arrays._numpy_serializer import NumpySerializer, numpy_version
from ..formats.lmdb._lmdb_data import LMDBData, LMDBSerializer
from ..formats.tables._arrow_data import ArrowData, ArrowSerializer, arrow_version
from ..formats.tables._parquet_data import ParquetData, ParquetSerializer, parquet_version
from ..formats.tar._tar_data import TarData
from ..formats.tar._write_tar import write_tar
from ..formats.text._csv_data import CSVData, CSVSerializer
from ..formats.text._jsonl_data import JSONLData, JSONLSerializer
from ..formats.text._svmlight_data import SVMLightData
from ..formats.tfrecord._tfrecord_data import TFRecordData, TFRecordSerializer
from ..storage import printable
from ._state_commands import CommandError

__all__ = ["FILE_HELP", "FileFormat", "format_of"]


@final
@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    Args:
        name: name of the format, for display.
        suffixes: file extensions.
        read: creates a flow over a file, in the order of the file.
        write: writes a flow to a path; None if unsupported.
        write_plain: like `write`, but converts values unsupported by the format; None if it supports all.
        version: returns the format version in a file of this package, and None for other files; None if the
            format has no place for it.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[str], DataFlow]
    write: Callable[[Any, str], None] | None = None
    write_plain: Callable[[Any, str], None] | None = None
    version: Callable[[str], int | None] | None = None


def format_of(path: str) -> FileFormat:
    """Returns the format of a file by its extension.

    Raises:
        CommandError: no format has this extension.
    """
    name = printable(path)
    for known in _FORMATS:
        if name.lower().endswith(known.suffixes):
            return known
    raise CommandError(f"{name}: no format has this extension. Known: {FILE_HELP}")


def _read_npz(path: str) -> DataFlow:
    if numpy_version(path) is None:  # arrays saved by another program
        return NumpyData(path, shuffle=False)
    return NumpySerializer.load(path, shuffle=False)


def _version_of_records(read: Callable[[str], Any], path: str) -> int | None:
    """Returns the version in the first record."""
    from ..formats.encoding._stored_datapoints import record_version

    first = next(iter(read(path)), None)
    return None if first is None else record_version(first[-1])


def _named(flow: Any) -> tuple[list[str], Iterator[Any]]:
    """Returns the names of the components of a flow, and all of its datapoints."""
    datapoints = iter(flow)
    first = next(datapoints, None)
    if first is None:
        raise CommandError("there are no datapoints, so the columns are unknown")
    names = list(first) if isinstance(first, dict) else [f"component_{place}" for place in range(len(first))]
    return [str(name) for name in names], chain([first], datapoints)


def _write_csv(flow: Any, path: str, plain: bool = False) -> None:
    names, whole = _named(flow)
    CSVSerializer.save(whole, path, names, plain=plain)


def _write_hdf5(flow: Any, path: str) -> None:
    names, whole = _named(flow)
    rows = (list(datapoint.values()) if isinstance(datapoint, dict) else datapoint for datapoint in whole)
    HDF5Serializer.save(rows, path, names)


def _compressed(suffix: str) -> tuple[str, ...]:
    return tuple(f"{suffix}{end}" for end in (".gz", ".bz2", ".xz"))


_FORMATS = (
    FileFormat(
        "LMDB",
        (".lmdb", ".mdb"),
        lambda path: LMDBSerializer.load(path, shuffle=False),
        LMDBSerializer.save,
        version=lambda path: _version_of_records(lambda path: LMDBData(path, shuffle=False), path),
    ),
    FileFormat(
        "TFRecord",
        (".tfrecord", ".tfrecords"),
        TFRecordSerializer.load,
        TFRecordSerializer.save,
        version=lambda path: _version_of_records(TFRecordData, path),
    ),
    FileFormat("NumPy archive", (".npz",), _read_npz, NumpySerializer.save, version=numpy_version),
    FileFormat("NumPy array", (".npy",), lambda path: NumpyData(path, shuffle=False)),
    FileFormat(
        "HDF5",
        (".h5", ".hdf5"),
        lambda path: HDF5Serializer.load(path, shuffle=False),
        _write_hdf5,
        version=hdf5_version,
    ),
    FileFormat("Parquet", (".parquet",), ParquetData, ParquetSerializer.save, version=parquet_version),
    FileFormat("Arrow", (".arrow", ".feather"), ArrowData, ArrowSerializer.save, version=arrow_version),
    FileFormat("CSV", (".csv",), CSVData, _write_csv, partial(_write_csv, plain=True)),
    FileFormat(
        "JSON Lines",
        (".jsonl",),
        JSONLData,
        JSONLSerializer.save,
        partial(JSONLSerializer.save, plain=True),
    ),
    FileFormat("compressed CSV", _compressed(".csv"), CSVData),
    FileFormat("compressed JSON Lines", _compressed(".jsonl"), JSONLData),
    FileFormat("SVMLight", (".svm", ".svmlight", ".libsvm"), lambda path: SVMLightData(path, shuffle=False)),
    FileFormat("tar", (".tar",), TarData, write_tar),
)

FILE_HELP = ", ".join(suffix for known in _FORMATS for suffix in known.suffixes)
