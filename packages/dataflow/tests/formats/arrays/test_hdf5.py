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


def test_a_saved_flow_is_loaded(path):
    loaded = list(HDF5Serializer.load(path, shuffle=False))
    assert len(loaded) == 600 and all((a[0] == b[0]).all() and a[1] == b[1] for a, b in zip(loaded, POINTS))
    assert os.listdir(path.parent) == ["data.h5"]
    assert same(list(HDF5Data(path, ["group/labels"], shuffle=False))[:2], [[0], [1]])


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_flow(path):
    check_dataflow(HDF5Data(path, NAMES), positions=2)
    flow = MultiProcessRunner(HDF5Data(path, NAMES, shuffle=False), 2, start_method="spawn")
    assert [label for _, label in flow] == list(range(600))


def test_files_of_others_need_names(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"], file["y"], file["one"] = np.zeros((3, 2)), np.zeros(4), 5.0
    with pytest.raises(ArgumentError, match=r"other.h5 was not written by HDF5Serializer; pass data_paths"):
        HDF5Serializer.load(tmp_path / "other.h5")
    assert len(HDF5Serializer.load(tmp_path / "other.h5", ["x"])) == 3
    for names, kind, message in [
        (["z"], ComponentError, "has no array 'z'; it has one, x, y"),
        (["x", "y"], ArgumentError, "arrays must have equal lengths; found"),
        (["one"], ArgumentError, "arrays must have equal lengths"),
        ([], ArgumentError, "data_paths is a list of names"),
        ("x", ArgumentError, "data_paths is a list of names"),
    ]:
        with pytest.raises(kind, match=message):
            HDF5Data(tmp_path / "other.h5", names)


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:1000], lambda raw: b"x" * 5000])
def test_a_damaged_file_is_named(path, tmp_path, damage):
    (tmp_path / "bad.h5").write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=r"bad.h5 is not an HDF5 file, or is truncated or damaged"):
        HDF5Data(tmp_path / "bad.h5", NAMES)
    with pytest.raises(FileNotFoundError):
        HDF5Data(tmp_path / "none.h5", NAMES)


def _written_by_an_earlier_release(path):
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["towerpack_data_paths"], file.attrs["towerpack_version"] = NAMES, 1
        for name, values in zip(NAMES, zip(*POINTS)):
            shape = np.shape(values)
            file.create_dataset(name, data=np.array(values), maxshape=(None, *shape[1:]))


@pytest.mark.parametrize("block", [b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"EAHD", b"EAIB"])
def test_damage_inside_of_a_file_is_named(path, tmp_path, block):
    source = path
    if block in {b"TREE", b"SNOD", b"HEAP", b"GCOL"}:
        source = tmp_path / "earlier.h5"
        _written_by_an_earlier_release(source)
    good = source.read_bytes()
    places = [found.start() for found in re.finditer(block, good)]
    assert places
    for place in places:
        # A separate file: HDF5 would reuse the content of an earlier one that is not collected yet.
        bad = tmp_path / f"bad-{place}.h5"
        bad.write_bytes(good[:place] + b"XXXX" + good[place + 4 :])
        with pytest.raises(
            FormatError, match=r"bad-\d+.h5.*(cannot be read: the file is damaged|is not an HDF5)"
        ):
            list(HDF5Serializer.load(bad, shuffle=False))


def test_files_of_earlier_releases_are_read_as_numbers_of_numpy(tmp_path):
    _written_by_an_earlier_release(tmp_path / "earlier.h5")
    rows = list(HDF5Serializer.load(tmp_path / "earlier.h5", shuffle=False))
    assert same(rows, [[image, np.int64(label)] for image, label in POINTS])


@pytest.mark.slow
def test_a_flipped_bit_is_an_error(tmp_path):
    rows = [(np.full(3, number, np.float32), number) for number in range(5)]
    HDF5Serializer.save(rows, tmp_path / "a.h5", NAMES)
    content = (tmp_path / "a.h5").read_bytes()
    for place in range(0, len(content), 97):
        bad = tmp_path / f"bad-{place}.h5"
        bad.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(FormatError, match=rf"bad-{place}\.h5"):
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
        ([[1]], "datapoint 0 must be a list of 2 components"),
        (
            [[np.zeros(2), 1], [np.zeros(3), 1]],
            r"with shape \(2,\) in datapoint 0, and an array of float64 with shape \(3,\) in datapoint 1",
        ),
        ([[1, 1], [1, 0.5]], r"labels\) is a Python number, int64, in datapoint 0"),
        ([["text", 1]], "HDF5 arrays are of numbers"),
        ([{"a": 1, "b": 2}], "received dict"),
    ],
)
def test_an_unsupported_datapoint_is_rejected_and_leaves_nothing(tmp_path, points, message):
    with pytest.raises(ArgumentError, match=message):
        HDF5Serializer.save(points, tmp_path / "a.h5", NAMES)
    assert not list(tmp_path.iterdir())


def test_without_h5py_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[hdf5\]"):
        HDF5Data(path, NAMES)


def test_each_value_has_a_checksum(tmp_path):
    rows = [[np.full(300, number, np.uint32), number] for number in range(40)]
    HDF5Serializer.save(rows, tmp_path / "a.h5", NAMES)
    good = (tmp_path / "a.h5").read_bytes()
    for number, (image, _) in enumerate(rows[1:], 1):
        at = good.index(image.tobytes()) + 500
        bad = tmp_path / f"bad-{number}.h5"
        bad.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(
            FormatError, match=rf"bad-{number}\.h5, row \d+ cannot be read: the file is damaged"
        ):
            list(HDF5Serializer.load(bad, shuffle=False))


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2.5, True, 1j], [-(2**63), -0.0, False, -1j]],
        [[2**64 - 1], [2**63]],
        [(np.float16(0.1), np.bool_(True)), (np.float16(0.2), np.bool_(False))],
        [[np.zeros((), ">i4"), np.ones((2, 3), ">c8").T]] * 3,
        [[np.zeros((0, 3), "f2"), np.zeros((2, 0))]] * 3,
        [[np.longdouble(1) / 3]],
        [[np.ones((70, 70)), np.ones(2)]] * 5,
    ],
)
def test_types_are_restored(tmp_path, rows):
    names = [f"group {number}/ü" for number in range(len(rows[0]))]
    HDF5Serializer.save(rows, tmp_path / "a.h5", names)
    assert same(list(HDF5Serializer.load(tmp_path / "a.h5", shuffle=False)), rows)


def test_an_empty_flow_is_an_empty_file(tmp_path):
    HDF5Serializer.save([], tmp_path / "a.h5", NAMES)
    assert list(HDF5Serializer.load(tmp_path / "a.h5")) == []


def test_an_array_that_is_filled_again_and_again_is_copied(tmp_path):
    def flow():
        memory = np.zeros(3)
        for number in range(5):
            memory[:] = number
            yield [memory]

    HDF5Serializer.save(flow(), tmp_path / "a.h5", ["x"])
    rows = list(HDF5Serializer.load(tmp_path / "a.h5", shuffle=False))
    assert same(rows, [[np.full(3, float(number))] for number in range(5)])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "/a/"], "data_paths has 'a' twice"),
        (
            ["a", "a/b"],
            r"data_paths has 'a/b'; HDF5 cannot create an array of int64 with shape \(\) under this name",
        ),
        (["a", ""], "data_paths has ''; expected names as strings"),
        (["a", "."], "expected names as strings"),
        (["a", "b\0"], "expected names as strings"),
        (["a", "\ud800"], "expected names as strings"),
    ],
)
def test_names_that_hdf5_cannot_have_are_refused(tmp_path, names, message):
    (tmp_path / "a.h5").write_bytes(b"old")
    with pytest.raises(ArgumentError, match=message):
        HDF5Serializer.save([[1, 2]], tmp_path / "a.h5", names)
    assert (tmp_path / "a.h5").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [[1.5], [2]],
            r"component 0 \(x\) is a Python number, float64, in datapoint 0.*int64, in datapoint 1",
        ),
        ([[1], [np.int64(1)]], "a NumPy number, int64"),
        ([[1], (1,)], "datapoint 1 must be a list of 1 components; received tuple"),
        ([[np.ma.masked_array([1.0], [True])]], r"component 0 \(x\) of datapoint 0 is MaskedArray"),
        ([[np.ma.masked]], "is MaskedConstant"),
        ([[2**64]], "is an array of object; HDF5 arrays are of numbers"),
        ([[[1, 2]]], "is list"),
        ([[np.zeros(2, "M8[ns]")]], r"is an array of datetime64\[ns\]"),
        ([[np.zeros(2, [("a", "i4")])]], "is an array of"),
    ],
)
def test_values_that_would_change_are_rejected(tmp_path, rows, message):
    (tmp_path / "a.h5").write_bytes(b"old")
    with pytest.raises(ArgumentError, match=message):
        HDF5Serializer.save(rows, tmp_path / "a.h5", ["x"])
    assert (tmp_path / "a.h5").read_bytes() == b"old"


def test_h5py_reads_a_saved_file(path):
    with h5py.File(path) as file:
        assert (file["images"][5] == POINTS[5][0]).all() and file["images"].fletcher32
        assert file["group/labels"][:].tolist() == list(range(600))
