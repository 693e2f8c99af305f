"""Tar files with an index compared with a loop over Python's `tarfile`: random reads of large members."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from _formats_row import LARGE, Row, per_second, random_order, random_records

from towerpack_dataflow import TarData, write_tar


def bare(path: Path, places: list[tuple[int, int]]) -> Iterator[bytes]:
    """Members with known positions in the file."""
    with path.open("rb") as file:
        for number in random_order(LARGE):
            begin, size = places[number]
            file.seek(begin)
            yield file.read(size)


def rows(folder: Path) -> Iterator[Row]:
    """Random reads."""
    path = folder / "samples.tar"
    write_tar(
        ({"__key__": f"{at:06}", "bin": record} for at, record in enumerate(random_records(LARGE))), path
    )
    with tarfile.open(path) as archive:
        places = [(member.offset_data, member.size) for member in archive]
    flow = TarData(path, shuffle=True)
    what = f"tar with an index, random reads of {LARGE // 1000} KB"
    yield Row(
        what,
        "tarfile and file.read",
        partial(per_second, partial(iter, flow)),
        partial(per_second, partial(bare, path, places)),
        0.9,
    )
