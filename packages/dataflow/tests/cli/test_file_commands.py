"""`convert`, `inspect` and `show`: what the commands write and print."""

import sys

import cv2
import numpy as np
import pytest

from towerpack_dataflow import (
    CSVData,
    HDF5Serializer,
    JSONLSerializer,
    LMDBSerializer,
    NumpySerializer,
    ParquetData,
    TarData,
    TFRecordSerializer,
    write_tar,
)
from towerpack_dataflow.__main__ import main

POINTS = [{"x": float(number), "label": number} for number in range(5)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    JSONLSerializer.save(POINTS, "points.jsonl")
    return tmp_path


def numbers(flow):
    return [
        [float(value) for value in (point.values() if isinstance(point, dict) else point)] for point in flow
    ]


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("a.parquet", ParquetData),
        ("a.csv", CSVData),
        ("a.lmdb", lambda path: LMDBSerializer.load(path, shuffle=False)),
        ("a.tfrecord", TFRecordSerializer.load),
        ("a.npz", lambda path: NumpySerializer.load(path, shuffle=False)),
        ("a.h5", lambda path: HDF5Serializer.load(path, shuffle=False)),
        ("a.jsonl", JSONLSerializer.load),
    ],
)
def test_a_file_is_written_in_another_format_and_back(folder, capsys, target, read):
    assert main(["convert", "points.jsonl", target]) == 0
    assert numbers(read(target)) == numbers(POINTS)
    assert capsys.readouterr().out.startswith(f"{target}: 5 datapoints of lines of JSON as ")
    if target != "a.jsonl":
        assert main(["convert", target, "back.jsonl"]) == 0
        assert numbers(JSONLSerializer.load("back.jsonl")) == numbers(POINTS)


def test_tar_files_take_samples(folder):
    write_tar([{"__key__": "0", "txt": b"zero"}, {"__key__": "1", "txt": b"one"}], "a.tar")
    assert main(["convert", "a.tar", "b.tfrecord"]) == 0 and main(["convert", "b.tfrecord", "c.tar"]) == 0
    assert list(TarData("c.tar")) == list(TarData("a.tar"))


def test_inspect_says_what_a_file_holds(folder, capsys):
    NumpySerializer.save([[np.zeros((2, 3), np.float32), "text", b"12", None]], "a.npz")
    assert main(["inspect", "a.npz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "format      NumPy archive" and lines[2:] == [
        *("datapoints  1", "first       list", "  0: float32, shape (2, 3)", "  1: str of length 4"),
        *("  2: bytes of length 2", "  3: NoneType None"),
    ]
    np.savez("other.npz", x=np.zeros((4, 2)))
    assert main(["inspect", "other.npz"]) == 0 and "x: float64, shape (2,)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["convert", "points.jsonl", "a.xyz"], "a.xyz: no format has this end. Known: .lmdb"),
        (["convert", "points.jsonl", "a.npy"], "files of NumPy array are read here, and not written"),
        (["convert", "points.jsonl", "points.jsonl"], "points.jsonl exists; remove it"),
        (["convert", "none.jsonl", "a.csv"], "none.jsonl cannot be read: "),
        (["convert", "empty.jsonl", "a.csv"], "there are no datapoints"),
        (["inspect", "bad.jsonl"], "bad.jsonl, record 0, at byte 0: the line is no JSON"),
    ],
)
def test_errors_are_told_and_leave_nothing(folder, capsys, command, message):
    (folder / "empty.jsonl").touch()
    (folder / "bad.jsonl").write_text("{\n")
    before = sorted(path.name for path in folder.iterdir())
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_show_writes_the_images_of_a_flow(folder, capsys):
    (folder / "flows_of_images.py").write_text(
        "import numpy as np\n"
        "flow = [[np.full((8, 8, 3), number / 10, np.float32), number] for number in range(5)]\n"
        "empty = []\n"
    )
    try:
        assert (
            main(["show", "flows_of_images:flow", "-o", "grid.png", "--number", "4", "--scale", "255"]) == 0
        )
        assert cv2.imread("grid.png")[12, 12].tolist() == [76] * 3
        assert capsys.readouterr().out == "grid.png: 4 images\n"
        assert main(["show", "flows_of_images:empty", "-o", "none.png"]) == 2
        assert main(["show", "flows_of_images:flow", "-o", "none.png", "--component", "image"]) == 2
        assert "index='image': the flow's datapoints have no such component" in capsys.readouterr().err
    finally:
        sys.modules.pop("flows_of_images", None)
    assert not (folder / "none.png").exists()
