"""NumPy's files and HDF5 compared with the bare libraries: random reads of large records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from _formats_row import COUNTS, LARGE, Row, per_second, random_order

from towerpack_dataflow import HDF5Data, NumpyData


def bare_numpy(path: Path) -> Iterator[Any]:
    """Rows of a mapped file, each copied."""
    array = np.load(path, mmap_mode="r")
    for number in random_order(LARGE):
        yield np.array(array[number])


def bare_hdf5(path: Path) -> Iterator[Any]:
    """Rows of an open file."""
    with h5py.File(path) as file:
        array = file["x"]
        for number in random_order(LARGE):
            yield array[number]


def rows(folder: Path) -> Iterator[Row]:
    """Random reads of both."""
    array = np.random.default_rng(0).integers(0, 256, (COUNTS[LARGE], LARGE), np.uint8)
    np.save(folder / "x.npy", array)
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = array
    del array
    what = f"random reads of {LARGE // 1000} KB"
    for name, library, ours, bare, least in [
        (
            "npy",
            "numpy",
            partial(NumpyData, folder / "x.npy", shuffle=True),
            partial(bare_numpy, folder / "x.npy"),
            0.9,
        ),
        (
            "HDF5",
            "h5py",
            partial(HDF5Data, folder / "x.h5", ["x"]),
            partial(bare_hdf5, folder / "x.h5"),
            None,
        ),
    ]:
        yield Row(f"{name}, {what}", library, partial(per_second, ours), partial(per_second, bare), least)
