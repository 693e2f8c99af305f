"""A damaged file is read with its original content, or rejected with a typed error."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from any_datapoints import difference, few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArrowSerializer,
    CSVData,
    CSVSerializer,
    DataFlowError,
    DataFromList,
    HDF5Serializer,
    JSONLData,
    JSONLSerializer,
    LMDBSerializer,
    NumpySerializer,
    ParquetSerializer,
    TarData,
    TFRecordSerializer,
    write_tar,
)

ROWS = [[np.arange(k, k + 6, dtype="int32").reshape(2, 3), float(k), f"text {k}"] for k in range(12)]
TABLE = [{"id": k, "value": k / 8, "name": f"text {k}"} for k in range(12)]
ARRAYS = [[array, np.float64(number)] for array, number, _ in ROWS]
SAMPLES = [{"__key__": f"sample{k}", "txt": f"text {k}".encode(), "bin": bytes(range(k))} for k in range(12)]


def _save(serializer: Any, rows: Any, path: str, *arguments: Any) -> None:
    serializer.save(DataFromList(rows, shuffle=False), path, *arguments)


# For each format: how a file is written, how it is read, and whether checksums protect all of its values.
FORMATS: dict[str, tuple[Callable[[str], Any], Callable[[str], Any], bool]] = {
    "arrow": (
        lambda path: _save(ArrowSerializer, TABLE, path),
        lambda path: ArrowSerializer.load(path, shuffle=False),
        False,
    ),
    "csv": (lambda path: _save(CSVSerializer, TABLE, path, ["id", "value", "name"]), CSVData, False),
    "hdf5": (
        lambda path: _save(HDF5Serializer, ARRAYS, path, ["array", "number"]),
        lambda path: HDF5Serializer.load(path, shuffle=False),
        True,
    ),
    "jsonl": (lambda path: _save(JSONLSerializer, TABLE, path), JSONLData, False),
    "lmdb": (
        lambda path: _save(LMDBSerializer, ROWS, path),
        lambda path: LMDBSerializer.load(path, shuffle=False),
        False,  # its pages have no checksums, its records have
    ),
    "npz": (
        lambda path: _save(NumpySerializer, ARRAYS, path),
        lambda path: NumpySerializer.load(path, shuffle=False),
        True,
    ),
    "parquet": (
        lambda path: _save(ParquetSerializer, TABLE, path),
        lambda path: ParquetSerializer.load(path, shuffle=False),
        False,  # its footer has none
    ),
    "records": (
        lambda path: _save(NumpySerializer, ROWS, path),
        lambda path: NumpySerializer.load(path, shuffle=False),
        True,
    ),
    "tar": (lambda path: write_tar(SAMPLES, path), TarData, False),
    "tfrecord": (lambda path: _save(TFRecordSerializer, ROWS, path), TFRecordSerializer.load, True),
}


@functools.cache
def whole(name: str) -> tuple[bytes, list[Any]]:
    """Returns the bytes of a file of a format, and its datapoints."""
    write, read, _ = FORMATS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{name}"
        write(str(path))
        return path.read_bytes(), list(read(str(path)))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FORMATS))
@few_examples(15)
@given(data=st.data())
def test_damage_is_refused_or_changes_nothing(name: str, data: st.DataObject) -> None:
    content, rows = whole(name)
    read, exact = FORMATS[name][1:]
    damaged = data.draw(_damage(content))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an end that is missing, and of values that overflow
        path = Path(folder) / f"file.{name}"
        path.write_bytes(damaged)
        try:
            found = list(read(str(path)))
        except (DataFlowError, OSError):
            return
        if name == "tfrecord":  # a file that ends after a record is valid; only the index has the number
            rows = rows[: len(found)]
        if exact:
            assert difference(rows, found, name) is None


def _damage(content: bytes) -> st.SearchStrategy[bytes]:
    """Returns the content with a bit flipped, a range of zeros, a part cut off, or bytes behind the end."""
    places = st.integers(0, len(content) - 1)
    return st.one_of(
        st.tuples(places, st.integers(0, 7)).map(
            lambda flip: (
                content[: flip[0]] + bytes([content[flip[0]] ^ 1 << flip[1]]) + content[flip[0] + 1 :]
            )
        ),
        st.tuples(places, st.integers(1, 64)).map(
            lambda zeros: content[: zeros[0]] + bytes(zeros[1]) + content[zeros[0] + zeros[1] :]
        ),
        places.map(lambda end: content[:end]),
        st.binary(min_size=1, max_size=64).map(lambda more: content + more),
    )
