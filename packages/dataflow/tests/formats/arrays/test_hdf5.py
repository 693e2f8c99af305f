"""HDF5 files: written, read row by row, and damaged."""

import os
import pickle
import re
import sys

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    ComponentError,
    DataFromList,
    FormatError,
    HDF5Data,
    HDF5Serializer,
    MultiProcessRunner,
)
from towerpack_dataflow.testing import check_dataflow, same

h5py = pytest.importorskip("h5py")

POINTS = [[np.full((2, 3), number, np.float32), number] for number in range(600)]
NAMES = ["images", "group/labels"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("hdf5") / "data.h5"
    HDF5Serializer.save(DataFromList(POINTS, shuffle=False), path, NAMES)
    return path


def test_what_is_saved_is_loaded(path):
    loaded = list(HDF5Serializer.load(path, shuffle=False))
    assert len(loaded) == 600 and all((a[0] == b[0]).all() and a[1] == b[1] for a, b in zip(loaded, POINTS))
    assert os.listdir(path.parent) == ["data.h5"]
    assert same(list(HDF5Data(path, ["group/labels"], shuffle=False))[:2], [[np.int64(0)], [np.int64(1)]])


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_flow(path):
    check_dataflow(HDF5Data(path, NAMES), positions=2)
    flow = MultiProcessRunner(HDF5Data(path, NAMES, shuffle=False), 2, start_method="spawn")
    assert [label for _, label in flow] == list(range(600))


def test_files_of_others_need_names(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"], file["y"], file["one"] = np.zeros((3, 2)), np.zeros(4), 5.0
    with pytest.raises(ArgumentError, match=r"other.h5 was not written by HDF5Serializer; give data_paths"):
        HDF5Serializer.load(tmp_path / "other.h5")
    assert len(HDF5Serializer.load(tmp_path / "other.h5", ["x"])) == 3
    for names, kind, message in [
        (["z"], ComponentError, "has no array 'z'; it has one, x, y"),
        (["x", "y"], ArgumentError, "arrays of one length are needed; found"),
        (["one"], ArgumentError, "arrays of one length"),
        ([], ArgumentError, "data_paths is a list of names"),
        ("x", ArgumentError, "data_paths is a list of names"),
    ]:
        with pytest.raises(kind, match=message):
            HDF5Data(tmp_path / "other.h5", names)


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:1000], lambda raw: b"x" * 5000])
def test_a_damaged_file_is_named(path, tmp_path, damage):
    (tmp_path / "bad.h5").write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=r"bad.h5 is no HDF5 file, or is cut off or damaged"):
        HDF5Data(tmp_path / "bad.h5", NAMES)
    with pytest.raises(FileNotFoundError):
        HDF5Data(tmp_path / "none.h5", NAMES)


@pytest.mark.parametrize("block", [b"TREE", b"SNOD", b"HEAP", b"GCOL"])
def test_damage_inside_of_a_file_is_named(path, tmp_path, block):
    good = path.read_bytes()
    for place in (found.start() for found in re.finditer(block, good)):
        # A file of its own: HDF5 would go on with what it has read of one that is not collected yet.
        bad = tmp_path / f"bad-{place}.h5"
        bad.write_bytes(good[:place] + b"XXXX" + good[place + 4 :])
        with pytest.raises(FormatError, match=r"bad-\d+.h5.* cannot be read: the file is damaged inside"):
            list(HDF5Serializer.load(bad, shuffle=False))


def test_a_replaced_file_is_noticed(tmp_path):
    HDF5Serializer.save(POINTS[:3], tmp_path / "a.h5", NAMES)
    copy = pickle.loads(pickle.dumps(HDF5Data(tmp_path / "a.h5", NAMES)))
    HDF5Serializer.save(POINTS[:2], tmp_path / "a.h5", NAMES)
    with pytest.raises(FormatError, match=r"a.h5: the file was replaced or changed"):
        list(copy)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1]], "datapoint 0 is to be a list of 2 components"),
        (
            [[np.zeros(2), 1], [np.zeros(3), 1]],
            r"has shape \(2,\) in the first datapoint, and \(3,\) in one of 0 to 1",
        ),
        ([[1, 1], [1, 0.5]], r"labels\) is of int64 in the first datapoint, and of float64 in one of 0 to 1"),
        ([["text", 1]], "HDF5 arrays are of numbers"),
        ([{"a": 1, "b": 2}], "received dict"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_leaves_nothing(tmp_path, points, message):
    with pytest.raises(ArgumentError, match=message):
        HDF5Serializer.save(points, tmp_path / "a.h5", NAMES)
    assert not list(tmp_path.iterdir())


def test_without_h5py_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[hdf5\]"):
        HDF5Data(path, NAMES)
