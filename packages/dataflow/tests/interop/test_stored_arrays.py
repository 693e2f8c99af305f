import numpy as np
import pytest

from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_dataflow.testing import check_dataflow, same


class Stored:
    """Like an array of zarr: read on access."""

    def __init__(self, values):
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __getitem__(self, rows):
        return self._values[rows].copy()


@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_and_batches_are_those_of_an_array(shuffle):
    values = np.arange(60.0).reshape(20, 3)
    flows = [DataFromArrays({"x": data, "n": range(20)}, shuffle) for data in (Stored(values), values)]
    for flow in flows:
        flow.seed(3)
    assert same(list(flows[0]), list(flows[1]))
    batches = [BatchData(flow, 6, remainder=True) for flow in flows]
    assert same(list(batches[0]), list(batches[1]))
    check_dataflow(DataFromArrays([Stored(values)], shuffle))


def test_a_mapped_file(tmp_path):
    np.save(tmp_path / "values.npy", np.arange(12).reshape(6, 2))
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    (batch,) = BatchData(DataFromArrays([mapped], shuffle=False), 6)
    assert np.array_equal(batch[0], mapped)
