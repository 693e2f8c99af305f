"""Tar files with an index beside a loop over Python's `tarfile`: random reads of large members."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from _formats_row import LARGE, Row, per_second, random_order, random_records

from towerpack_dataflow import TarData, write_tar


def bare(path: Path) -> Iterator[bytes]:
    """Members of an open archive, whose places are known."""
    with tarfile.open(path) as archive:
        places = [(member.offset_data, member.size) for member in archive]
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
    what = f"tar with an index, random reads of {LARGE // 1000} KB"
    yield Row(
        what,
        "tarfile and file.read",
        partial(per_second, partial(TarData, path, shuffle=True)),
        partial(per_second, partial(bare, path)),
        0.9,
    )
