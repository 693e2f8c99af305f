"""LMDB beside the package lmdb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
from _formats_row import LARGE, Row, per_second, random_order, random_records

from towerpack_dataflow import LMDBData


def write(path: Path) -> None:
    """Writes records with keys of eight digits."""
    with (
        lmdb.open(str(path), subdir=False, lock=False, map_size=2**40) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number, record in enumerate(random_records(LARGE)):
            transaction.put(f"{number:08d}".encode(), record)


def bare(path: Path) -> Iterator[bytes]:
    """Reads values in a random order."""
    keys = [f"{number:08d}".encode() for number in random_order(LARGE)]
    with (
        lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=False) as environment,
        environment.begin() as transaction,
    ):
        for key in keys:
            yield transaction.get(key)


def rows(folder: Path) -> Iterator[Row]:
    """Random reads."""
    # A file each, since LMDB opens none twice in a process.
    paths = [folder / name for name in ("ours", "bare")]
    for path in paths:
        write(path)
    flow = LMDBData(paths[0], shuffle=True, keys="{:08d}")
    flow.seed(1)
    what = f"LMDB, random reads of {LARGE // 1000} KB"
    yield Row(what, "lmdb", lambda: per_second(lambda: flow), lambda: per_second(lambda: bare(paths[1])), 0.9)
