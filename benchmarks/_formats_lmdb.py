"""LMDB compared with the package lmdb."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
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


def bare(transaction: lmdb.Transaction) -> Iterator[bytes]:
    """Reads values in a random order."""
    for key in [f"{number:08d}".encode() for number in random_order(LARGE)]:
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
    with (
        lmdb.open(str(paths[1]), subdir=False, readonly=True, lock=False, readahead=False) as environment,
        environment.begin() as transaction,
    ):
        loop = partial(bare, transaction)
        yield Row(what, "lmdb", lambda: per_second(lambda: flow), partial(per_second, loop), 0.9)
