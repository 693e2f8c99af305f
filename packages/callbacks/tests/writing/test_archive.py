"""Arrays in NumPy archives, under names that `np.savez` would not take."""

import os

import numpy as np
import pytest

from towerpack_callbacks.writing import write_archive


def test_any_name_and_shape_comes_back(tmp_path):
    arrays = {"file": np.arange(3), "a/b:1": np.ones((0, 2), np.float16), "scalar": np.array(2.5)}
    arrays |= {
        "big-endian": np.array([2**60 + 1], ">i8"),
        "time": np.array([5], "M8[ns]"),
        "text": np.array(["a"]),
    }
    arrays["structured"] = np.array([(1, 2.5)], [("a", "i4"), ("b", ">f8")])
    write_archive(tmp_path / "all.npz", arrays)
    with np.load(tmp_path / "all.npz") as archive:
        assert sorted(archive.files) == sorted(arrays)
        for name, array in arrays.items():
            assert archive[name].dtype == array.dtype
            np.testing.assert_array_equal(archive[name], array)
    assert os.listdir(tmp_path) == ["all.npz"]


def test_objects_are_refused_and_leave_the_old_archive_alone(tmp_path):
    path = tmp_path / "all.npz"
    path.write_text("old")
    arrays = {"a": np.ones(1), "words": np.array(["x"], object), "gaps": np.ma.masked_array([1], [True])}
    with pytest.raises(
        TypeError, match=r"received masked arrays, or arrays of objects or text: gaps, words. Leave"
    ):
        write_archive(path, arrays)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["all.npz"]
