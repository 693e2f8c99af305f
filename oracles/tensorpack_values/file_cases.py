"""Files of flows: what each library writes, and what it reads of the other's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import h5py
import lmdb
import numpy as np
from cases import add, case, drawn, image
from tensorpack.dataflow import (
    DataFromList,
    HDF5Data,
    HDF5Serializer,
    ImageFromFile,
    LMDBData,
    LMDBDataDecoder,
    LMDBSerializer,
    NumpySerializer,
    SVMLightData,
    TFRecordSerializer,
)
from tensorpack.utils.serialize import dumps, loads

FOLDER, OTHER = Path(os.environ["VALUES_FOLDER"]) / "files", os.environ["VALUES_OTHER"]
ARRAYS = [[n, drawn(f"array{n}", (3, 4))] for n in range(5)]
MIXED = [
    [
        n,
        n / 3,
        f"text {n}",
        b"\x00\xff",
        drawn(f"array{n}", (2,)),
        np.int64(n),
        np.float32(n),
        [1, [2, "a"]],
        None,
    ]
    for n in range(3)
]
DICTS = [{"label": n, "image": image(), "names": ["a", "b"], "flag": n > 1} for n in range(3)]

Format = tuple[str, Callable[[Any, str], None], Callable[[str], Any], Any]
FORMATS: dict[str, Format] = {
    "lmdb": ("a.lmdb", LMDBSerializer.save, lambda path: LMDBSerializer.load(path, shuffle=False), MIXED),
    "lmdb_dicts": (
        "b.lmdb",
        LMDBSerializer.save,
        lambda path: LMDBSerializer.load(path, shuffle=False),
        DICTS,
    ),
    "tfrecord": ("a.tfrecord", TFRecordSerializer.save, lambda path: TFRecordSerializer.load(path, 3), MIXED),
    "tfrecord_sizeless": ("b.tfrecord", TFRecordSerializer.save, TFRecordSerializer.load, DICTS),
    "npz": ("a.npz", NumpySerializer.save, lambda path: NumpySerializer.load(path, shuffle=False), MIXED),
    "npz_arrays": ("b.npz", NumpySerializer.save, lambda path: NumpySerializer.load(path, False), ARRAYS),
    "hdf5": (
        "a.h5",
        lambda flow, path: HDF5Serializer.save(flow, path, ["label", "group/image"]),
        lambda path: HDF5Serializer.load(path, ["label", "group/image"], shuffle=False),
        ARRAYS,
    ),
    "hdf5_data": (
        "b.h5",
        lambda flow, path: HDF5Serializer.save(flow, path, ["a", "b"]),
        lambda path: HDF5Data(path, ["b", "a"], shuffle=False),
        ARRAYS,
    ),
}


def _read(flow: Any) -> Any:
    flow.reset_state()
    try:
        size = len(flow)
    except (NotImplementedError, TypeError):
        size = "none"
    return {"size": size, "rows": [_typed(list(row) if isinstance(row, np.ndarray) else row) for row in flow]}


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _typed(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_typed(inner) for inner in value]
    return [value, type(value).__name__, str(getattr(value, "dtype", ""))]


def written(kind: str) -> Any:
    """Writes a file, and reads it again."""
    name, save, load, rows = FORMATS[kind]
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / name
    path.unlink(missing_ok=True)
    save(DataFromList(rows, shuffle=False), str(path))
    return _read(load(str(path)))


def exchanged(kind: str) -> Any:
    """Reads the file that the other library has written, or else the own one."""
    name, _, load, _ = FORMATS[kind]
    other = Path(OTHER) / "files" / name
    return _read(load(str(other if OTHER and other.exists() else FOLDER / name)))


for kind in FORMATS:
    add(f"file/{kind}_written", lambda kind=kind: written(kind))
    add(f"file/{kind}_exchanged", lambda kind=kind: exchanged(kind))


@case
def serialized() -> Any:
    return [_typed(loads(dumps(each))) for each in (*MIXED, *DICTS, (1, 2), {1: "a"}, 2**40, -1, True)]


@case
def lmdb_keys() -> Any:
    path = Path(shutil.copy(FOLDER / "a.lmdb", FOLDER / "copy.lmdb"))
    second = str(shutil.copy(path, FOLDER / "second.lmdb"))
    flow = LMDBData(str(path), shuffle=False)
    decoded = LMDBDataDecoder(LMDBData(second, shuffle=False), lambda key, value: [key, loads(value)[0]])
    database = lmdb.open(
        str(shutil.copy(path, FOLDER / "again.lmdb")), subdir=False, readonly=True, lock=False
    )
    with database, database.begin() as transaction:
        keys = sorted(bytes(key) for key, _ in transaction.cursor())
    found = _read(flow)
    return [len(flow), [row[0] for row in found["rows"]], _read(decoded), [key.decode() for key in keys]]


@case
def lmdb_with_own_keys() -> Any:
    path = FOLDER / "keys.lmdb"
    path.unlink(missing_ok=True)
    database = lmdb.open(str(path), subdir=False, map_size=2**20)
    with database, database.begin(write=True) as transaction:
        for n in range(3):
            transaction.put(f"img{n}".encode(), bytes([n]))
    return _read(LMDBData(str(path), shuffle=False))


@case
def hdf5_of_others() -> Any:
    path = FOLDER / "own.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = drawn("x", (4, 3)), np.arange(4)
    return _read(HDF5Data(str(path), ["x", "y"], shuffle=False))


@case
def svmlight() -> Any:
    path = FOLDER / "a.svm"
    path.write_text("1 1:0.5 3:2\n0 2:1.25\n1 1:-1 2:3 3:4\n")
    return _read(SVMLightData(str(path), shuffle=False))


@case
def images_of_files() -> Any:
    paths = []
    for n in range(2):
        paths.append(str(FOLDER / f"{n}.png"))
        cv2.imwrite(paths[-1], image()[n:])
    return [
        _read(ImageFromFile(paths)),
        _read(ImageFromFile(paths, channel=1)),
        _read(ImageFromFile(paths, resize=(8, 9))),
        _read(ImageFromFile(paths, resize=6)),
    ]
