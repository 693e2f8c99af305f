"""Archives of arrays, compared with those of NumPy."""

import io

import numpy as np
import pytest

from towerpack_dataflow.formats.arrays._file_rows import write_npz


def test_numpy_reads_a_written_archive():
    arrays = {
        "file": np.arange(6.0).reshape(2, 3).T,
        "allow_pickle": np.array("text"),
        "scope/nothing": np.zeros((0, 3), "u1"),
    }
    file = io.BytesIO()
    write_npz(file, arrays)
    file.seek(0)
    with np.load(file) as loaded:
        assert loaded.files == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)
            assert loaded[name].dtype == array.dtype


def test_objects_are_refused():
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_npz(io.BytesIO(), {"a": np.array([{}, None])})
    with pytest.raises(ValueError, match="array 'a' is masked"):
        write_npz(io.BytesIO(), {"a": np.ma.masked_array([1], [True])})
