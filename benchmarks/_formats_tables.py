"""Parquet, Arrow and JSON lines compared with the bare libraries: rows as dicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _formats_row import COUNTS, SMALL, Row, per_second
from pyarrow import ipc, parquet

from towerpack_dataflow import (
    ArrowData,
    ArrowSerializer,
    JSONLData,
    JSONLSerializer,
    ParquetData,
    ParquetSerializer,
)


def bare_parquet(path: Path) -> Iterator[Any]:
    """Rows of batches that pyarrow iterates over."""
    for batch in parquet.ParquetFile(path).iter_batches(4096):
        yield from batch.to_pylist()


def bare_arrow(path: Path) -> Iterator[Any]:
    """Rows of the record batches of a mapped file."""
    with pa.memory_map(str(path)) as mapped:
        reader = ipc.open_file(mapped)
        for number in range(reader.num_record_batches):
            yield from reader.get_batch(number).to_pylist()


def bare_json(path: Path) -> Iterator[Any]:
    """Lines of an open file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def rows(folder: Path) -> Iterator[Row]:
    """Rows of five columns."""
    numbers = np.random.default_rng(0).random(COUNTS[SMALL])
    table = [
        {"id": place, "x": value, "y": -value, "label": place % 10, "text": f"sample {place} of a table"}
        for place, value in enumerate(numbers.tolist())
    ]
    ParquetSerializer.save(table, folder / "rows.parquet")
    JSONLSerializer.save(table, folder / "rows.jsonl")
    ArrowSerializer.save(table, folder / "rows.arrow")
    for name, library, flow, end, bare, least in [
        ("Parquet", "pyarrow", ParquetData, "parquet", bare_parquet, 0.9),
        ("Arrow", "pyarrow", ArrowData, "arrow", bare_arrow, 0.9),
        ("lines of JSON", "json", JSONLData, "jsonl", bare_json, None),
    ]:
        path = folder / f"rows.{end}"
        ours, theirs = partial(per_second, partial(flow, path)), partial(per_second, partial(bare, path))
        yield Row(f"{name}, rows in order", library, ours, theirs, least)
