"""`convert`, `inspect` and `show`: output and written files."""

import gzip
import lzma
import sys

import cv2
import numpy as np
import pytest

from towerpack_dataflow import (
    ArrowData,
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
        ("a.arrow", ArrowData),
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
    assert capsys.readouterr().out.startswith(f"{target}: 5 datapoints of JSON Lines as ")
    if target != "a.jsonl":
        assert main(["convert", target, "back.jsonl"]) == 0
        assert numbers(JSONLSerializer.load("back.jsonl")) == numbers(POINTS)


def test_unsupported_types_are_converted_for_text_formats_on_request(folder, capsys):
    NumpySerializer.save([[np.float32(0.5), np.arange(2)]], "a.npz")
    for target in ("a.csv", "a.jsonl"):
        assert main(["convert", "a.npz", target]) == 2
        assert "component" in capsys.readouterr().err and not (folder / target).exists()
    assert main(["convert", "--plain", "a.npz", "a.jsonl"]) == 0
    assert list(JSONLSerializer.load("a.jsonl")) == [[0.5, [0, 1]]]
    assert main(["convert", "--plain", "a.npz", "a.lmdb"]) == 2
    assert "--plain is for CSV and JSON Lines; LMDB has separate types" in capsys.readouterr().err


def test_compressed_text_is_read(folder, capsys, monkeypatch):
    monkeypatch.setenv("TOWERPACK_CACHE", str(folder / "cache"))
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"x,label\n0.5,1\n"))
    (folder / "a.jsonl.xz").write_bytes(lzma.compress(b"[1]\n\n[2]\n"))
    assert main(["inspect", "a.jsonl.xz"]) == 0 and "datapoints  2" in capsys.readouterr().out
    assert main(["convert", "a.csv.gz", "a.parquet"]) == 0
    assert list(ParquetData("a.parquet")) == [{"x": "0.5", "label": "1"}]
    assert main(["convert", "points.jsonl", "b.jsonl.gz"]) == 2
    assert "files of compressed JSON Lines can be read, but not written" in capsys.readouterr().err


def test_tar_files_take_samples(folder):
    write_tar([{"__key__": "0", "txt": b"zero"}, {"__key__": "1", "txt": b"one"}], "a.tar")
    assert main(["convert", "a.tar", "b.tfrecord"]) == 0 and main(["convert", "b.tfrecord", "c.tar"]) == 0
    assert list(TarData("c.tar")) == list(TarData("a.tar"))


def test_inspect_prints_a_summary_of_a_file(folder, capsys):
    NumpySerializer.save([[np.zeros((2, 3), np.float32), "text", b"12", None]], "a.npz")
    assert main(["inspect", "a.npz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["format      NumPy archive", "version     1"] and lines[3:] == [
        *("datapoints  1", "first       list", "  0: float32, shape (2, 3)", "  1: str of length 4"),
        *("  2: bytes of length 2", "  3: NoneType None"),
    ]
    np.savez("other.npz", x=np.zeros((4, 2)))
    assert main(["inspect", "other.npz"]) == 0
    printed = capsys.readouterr().out
    assert "x: float64, shape (2,)" in printed and "version     none: another program wrote it" in printed
    for target in ("a.lmdb", "a.tfrecord", "a.h5", "a.parquet", "a.feather", "a.npz"):
        (folder / target).unlink(missing_ok=True)
        assert main(["convert", "points.jsonl", target]) == 0 and main(["inspect", target]) == 0
        version = 2 if target == "a.lmdb" else 1
        assert f"\nversion     {version}\n" in capsys.readouterr().out
    assert main(["inspect", "points.jsonl"]) == 0 and "version" not in capsys.readouterr().out


def test_a_damaged_file_of_ours_is_not_taken_for_arrays_of_others(folder, capsys):
    NumpySerializer.save([[1, 2.0]], "a.npz")
    raw = (folder / "a.npz").read_bytes()
    (folder / "a.npz").write_bytes(raw.replace(b'"version": 1', b'"version": 7'))
    assert main(["inspect", "a.npz"]) == 2
    assert "a.npz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["convert", "points.jsonl", "a.xyz"], "a.xyz: no format has this extension. Known: .lmdb"),
        (["convert", "points.jsonl", "a.npy"], "files of NumPy array can be read, but not written"),
        (["convert", "points.jsonl", "points.jsonl"], "points.jsonl exists; remove it"),
        (["convert", "none.jsonl", "a.csv"], "none.jsonl cannot be read: "),
        (["convert", "empty.jsonl", "a.csv"], "there are no datapoints"),
        (["inspect", "https://me:secret@host/a.xyz?key=secret"], "error: https://host/a.xyz: no format has"),
        (["inspect", "bad.jsonl"], "bad.jsonl, record 0, at byte 0: the line is not JSON"),
    ],
)
def test_errors_are_printed_and_leave_nothing(folder, capsys, command, message):
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
        assert "index='image': the datapoints of the flow have no such component" in capsys.readouterr().err
    finally:
        sys.modules.pop("flows_of_images", None)
    assert not (folder / "none.png").exists()


FLOWS_OF_AUGMENTED_IMAGES = """
import numpy as np
from towerpack_dataflow import AugmentImageComponents, BatchData, DataFromList
from towerpack_dataflow.augment import Flip, Normalize

halves = np.zeros((8, 8, 3), np.uint8)
halves[:, 4:] = 200
source = DataFromList([{"image": halves, "label": number} for number in range(4)], shuffle=False)
augmented = AugmentImageComponents(source, [Flip(horiz=True, prob=1), Normalize(100, 50)], ("image",))
flow = BatchData(augmented, 2)
"""


def test_show_writes_images_before_and_after_augmentation(folder, capsys):
    (folder / "augmented.py").write_text(FLOWS_OF_AUGMENTED_IMAGES)
    assert main(["show", "augmented.py:flow", "-o", "grid.png", "--number", "1"]) == 0
    assert capsys.readouterr().out == "grid.png: 1 images, before and after augmentation\n"
    picture = cv2.imread("grid.png")
    assert picture.shape == (8, 18, 3)
    assert picture[0, :, 0].tolist() == [0] * 4 + [200] * 4 + [255] * 2 + [255] * 4 + [0] * 4
    assert main(["show", "augmented.py:flow", "-o", "all.png", "--component", "image"]) == 0
    assert capsys.readouterr().out == "all.png: 4 images, before and after augmentation\n"
    assert main(["show", "augmented.py:flow", "-o", "none.png", "--component", "label"]) == 2
