"""Truncating or writing to a file while a flow reads it is an error that names the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from towerpack_dataflow import (
    ArrowData,
    ArrowSerializer,
    CSVData,
    CSVSerializer,
    DataFlow,
    DataFlowError,
    HDF5Data,
    HDF5Serializer,
    JSONLData,
    JSONLSerializer,
    NumpySerializer,
    ParquetData,
    ParquetSerializer,
    TarData,
    TFRecordData,
    TFRecordSerializer,
    write_tar,
)

ROWS = [{"x": number, "text": "a" * 20_000} for number in range(200)]


def _csv(path: Path) -> DataFlow:
    CSVSerializer.save(ROWS, path, ["x", "text"])
    return CSVData(path, shuffle=False)


def _jsonl(path: Path) -> DataFlow:
    JSONLSerializer.save(ROWS, path)
    return JSONLData(path, shuffle=False)


def _arrow(path: Path) -> DataFlow:
    ArrowSerializer.save(ROWS, path)
    return ArrowData(path, shuffle=False)


def _parquet(path: Path) -> DataFlow:
    ParquetSerializer.save(ROWS, path)
    return ParquetData(path, shuffle=False)


def _arrays(path: Path) -> DataFlow:
    NumpySerializer.save([[np.full(2000, number)] for number in range(200)], path)
    return NumpySerializer.load(path, shuffle=False)


def _hdf5(path: Path) -> DataFlow:
    HDF5Serializer.save([[np.full(2000, number)] for number in range(200)], path, ["x"])
    return HDF5Data(path, ["x"], shuffle=False)


def _records(path: Path) -> DataFlow:
    NumpySerializer.save(ROWS, path)
    return NumpySerializer.load(path, shuffle=False)


def _tfrecord(path: Path) -> DataFlow:
    TFRecordSerializer.save(ROWS * 3, path)  # more than are read at a time
    return TFRecordData(path)


def _tar(path: Path) -> DataFlow:
    write_tar([{"__key__": str(number), "txt": "a" * 20_000} for number in range(200)], path)
    return TarData(path)


WRITERS = [_csv, _jsonl, _arrow, _parquet, _arrays, _hdf5, _records, _tfrecord, _tar]


def _cut(path: Path) -> None:
    os.truncate(path, 0)


def _shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _rewritten(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    os.utime(path, ns=(0, 5))


def _in_order(flow: DataFlow) -> Any:
    passed = iter(flow)
    next(passed)
    yield
    list(passed)


def _by_number(flow: DataFlow) -> Any:
    flow.datapoint(0, 0)
    yield
    for number in range(len(flow)):
        flow.datapoint(0, number)


@pytest.mark.parametrize("make", WRITERS)
@pytest.mark.parametrize("read", [_in_order, _by_number])
@pytest.mark.parametrize("change", [_cut, _shortened, _rewritten])
def test_a_changed_file_is_an_error(
    tmp_path: Path,
    make: Callable[[Path], DataFlow],
    read: Callable[[DataFlow], Any],
    change: Callable[[Path], None],
) -> None:
    path = tmp_path / "data.file"
    reading = read(make(path))
    next(reading)
    change(path)
    with pytest.raises(DataFlowError, match=r"data\.file"):
        next(reading)


@pytest.mark.parametrize("make", WRITERS)
def test_a_replaced_file_is_read_on(tmp_path: Path, make: Callable[[Path], DataFlow]) -> None:
    path = tmp_path / "data.file"
    flow = make(path)
    passed = iter(flow)
    next(passed)
    (tmp_path / "other").write_bytes(b"other")
    os.replace(tmp_path / "other", path)
    assert len(list(passed)) == len(flow) - 1
