"""A file restores each written value and dtype, or its writer rejects them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from any_datapoints import columns, datapoints, difference, few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArrowSerializer,
    CSVSerializer,
    DataFlowError,
    DataFromList,
    HDF5Serializer,
    JSONLSerializer,
    LMDBSerializer,
    NumpySerializer,
    ParquetSerializer,
    TFRecordSerializer,
)
from towerpack_dataflow.formats.encoding import pack_message, unpack_message

Rows = list[Any]
Trip = Callable[[Rows, str], Rows]


def _saved(serializer: Any, **options: Any) -> Trip:
    def trip(rows: Rows, path: str) -> Rows:
        serializer.save(DataFromList(rows, shuffle=False), path)
        return list(serializer.load(path, **options))

    return trip


def _table(serializer: Any) -> Trip:
    def trip(rows: Rows, path: str) -> Rows:
        serializer.save(DataFromList(rows, shuffle=False), path)
        # Columns are in the order of the first row.
        return [
            {name: row[name] for name in was} for was, row in zip(rows, serializer.load(path), strict=True)
        ]

    return trip


def _hdf5(rows: Rows, path: str) -> Rows:
    HDF5Serializer.save(DataFromList(rows, shuffle=False), path, [f"c{k}" for k in range(len(rows[0]))])
    return list(HDF5Serializer.load(path, shuffle=False))


def _csv(rows: Rows, path: str) -> Rows:
    names = [*rows[0]] if isinstance(rows[0], dict) else [f"c{k}" for k in range(len(rows[0]))]
    CSVSerializer.save(DataFromList(rows, shuffle=False), path, names)
    # Columns are in the order of the header, and a row of the file is no list.
    read = zip(rows, CSVSerializer.load(path), strict=True)
    return [
        {name: row[name] for name in was} if isinstance(was, dict) else type(was)(row.values())
        for was, row in read
    ]


def _messages(rows: Rows, path: str) -> Rows:
    return [unpack_message([bytes(frame) for frame in pack_message(row)]) for row in rows]


TRIPS: dict[str, Trip] = {
    "arrow": _table(ArrowSerializer),
    "csv": _csv,
    "hdf5": _hdf5,
    "jsonl": _saved(JSONLSerializer, shuffle=False),
    "lmdb": _saved(LMDBSerializer, shuffle=False),
    "messages": _messages,
    "numpy": _saved(NumpySerializer, shuffle=False),
    "parquet": _table(ParquetSerializer),
    "tfrecord": _saved(TFRecordSerializer),
}


every_format = pytest.mark.parametrize("trip", TRIPS.values(), ids=TRIPS)


def check(trip: Trip, rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(b"before")
        try:
            read = trip(rows, str(path))
        except DataFlowError:
            assert path.read_bytes() == b"before"
            return
        assert difference(rows, read, "rows") is None


@pytest.mark.slow
@every_format
@few_examples()
@given(data=st.data())
def test_any_datapoints_are_restored_or_rejected(trip: Trip, data: st.DataObject) -> None:
    check(trip, data.draw(st.lists(datapoints(), min_size=1, max_size=3)))


@pytest.mark.slow
@every_format
@few_examples()
@given(data=st.data())
def test_columns_are_restored_or_rejected(trip: Trip, data: st.DataObject) -> None:
    column = data.draw(columns())
    check(trip, [{"id": k, "value": value} for k, value in enumerate(column)])
    check(trip, [[value] for value in column])


@every_format
@pytest.mark.parametrize("column", [[0, None], [None, 0], [2**70, None], [0, "a"], [0.5, None], [True, None]])
def test_a_column_of_numbers_and_others_comes_back_or_is_refused(trip: Trip, column: list[object]) -> None:
    check(trip, [[value] for value in column])
    check(trip, [{"value": value} for value in column])
