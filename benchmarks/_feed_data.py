"""Writes the data of `loaders.py`: pictures, documents, tables and a folder with many files.

Formats of peers are written if their libraries are installed.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import _rounds
import numpy as np
from _loaders import jpegs

PICTURES, CLASSES = _rounds.shorter(1280, 128), 4
DOCUMENTS = _rounds.shorter(50_000, 500)
TABLE_ROWS, GROUP = _rounds.shorter(1_000_000, 20_000), _rounds.shorter(50_000, 5000)
MANY, FILES_OF_CLASS = _rounds.shorter(1_000_000, 2000), 1000
LINKS = 30_000  # names of one file; a file system has a limit


def write_pictures(folder: Path) -> None:
    """Writes JPEG files in folders of classes, as tar files, and as a table of Hugging Face."""
    content = jpegs(min(PICTURES, 400))
    files = [content[number % len(content)] for number in range(PICTURES)]
    for number, file in enumerate(files):
        place = folder / "images" / f"class{number % CLASSES}" / f"{number:05}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file)
    (folder / "shards").mkdir()
    for shard in range(8):
        with tarfile.open(folder / "shards" / f"{shard}.tar", "w") as tar:
            for number in range(shard, PICTURES, 8):
                member = tarfile.TarInfo(f"{number:05}.jpg")
                member.size = len(files[number])
                tar.addfile(member, io.BytesIO(files[number]))
    if (datasets := hugging_face()) is not None:
        datasets.Dataset.from_dict({"jpeg": files}).save_to_disk(str(folder / "hugging_face"))


def write_documents(folder: Path) -> None:
    """Writes documents of 8 to 1024 tokens, most of them short, one after the other."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5, 0.8, DOCUMENTS), 8, 1024).astype(np.int64)
    tokens = rng.integers(1, 50_000, lengths.sum()).astype(np.uint16)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "ends.npy", np.cumsum(lengths))
    if (datasets := hugging_face()) is not None:
        rows = np.split(tokens, np.cumsum(lengths)[:-1])
        datasets.Dataset.from_dict({"ids": rows}).save_to_disk(str(folder / "documents"))


def write_tables(folder: Path) -> None:
    """Writes a table of eight columns of float32, three of int64 and one of float64."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    rng = np.random.default_rng(0)
    columns = {f"x{number}": rng.random(TABLE_ROWS, np.float32) for number in range(8)}
    columns |= {f"n{number}": rng.integers(0, 1000, TABLE_ROWS) for number in range(3)}
    table = pa.table({**columns, "y": rng.random(TABLE_ROWS)})
    parquet.write_table(table, folder / "table.parquet", row_group_size=GROUP)
    with ipc.new_file(folder / "table.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=GROUP)
    with ipc.new_stream(folder / "table.arrows", table.schema) as writer:  # the format of Hugging Face
        writer.write_table(table, max_chunksize=GROUP)


def write_many_files(folder: Path) -> None:
    """Writes a folder with many files, which are names of a few."""
    for number in range(MANY):
        if number % LINKS == 0:
            original = folder / f"file{number}"
            original.write_bytes(bytes(100))
        if number % FILES_OF_CLASS == 0:
            place = os.path.join(folder, "many", f"class{number // FILES_OF_CLASS:04}")
            os.makedirs(place)
        os.link(original, f"{place}/picture_{number:08}.jpg")


def hugging_face() -> object | None:
    """The library, if it is installed and wanted."""
    if _rounds.SMOKE:
        return None
    try:
        import datasets
    except ImportError:
        return None
    datasets.disable_progress_bars()
    return datasets
