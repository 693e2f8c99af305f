"""Parquet and lines of JSON beside the bare libraries: rows as dicts, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _formats_row import COUNTS, SMALL, Row, per_second
from pyarrow import parquet

from towerpack_dataflow import JSONLData, JSONLSerializer, ParquetData, ParquetSerializer


def bare_parquet(path: Path) -> Iterator[Any]:
    """Rows of batches that pyarrow iterates over."""
    for batch in parquet.ParquetFile(path).iter_batches(4096):
        yield from batch.to_pylist()


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
    for name, library, ours, bare, least in [
        ("Parquet", "pyarrow", partial(ParquetData, folder / "rows.parquet"), bare_parquet, 0.9),
        ("lines of JSON", "json", partial(JSONLData, folder / "rows.jsonl"), bare_json, None),
    ]:
        path = folder / ("rows.parquet" if library == "pyarrow" else "rows.jsonl")
        bare = partial(bare, path)
        yield Row(
            f"{name}, rows in order", library, partial(per_second, ours), partial(per_second, bare), least
        )
