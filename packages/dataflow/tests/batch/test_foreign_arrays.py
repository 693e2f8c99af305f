"""Batches of tensors and arrays of other libraries, which NumPy reads through `__array__`."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from towerpack_dataflow import (
    BatchData,
    BatchDataByShape,
    BatchError,
    DataFromArrays,
    DataFromList,
    PadBatchData,
)
from towerpack_dataflow.testing import same

EXAMPLES = settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 25)), deadline=None)


class Tensor:
    """An array of another library."""

    def __init__(self, values):
        self._values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype)

    def __len__(self):
        return len(self._values)

    @property
    def ndim(self):
        return self._values.ndim

    @property
    def shape(self):
        return self._values.shape


class OfDevice(Tensor):
    """A tensor that lies in memory that NumPy does not read."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert a tensor of a device to numpy")


def bits(datapoints):
    return [
        (np.asarray(part).dtype, np.shape(part), np.asarray(part).tobytes())
        for datapoint in datapoints
        for part in (datapoint.values() if isinstance(datapoint, dict) else datapoint)
    ]


VALUES = arrays.arrays(
    st.one_of(
        arrays.boolean_dtypes(),
        arrays.integer_dtypes(),
        arrays.unsigned_integer_dtypes(),
        arrays.floating_dtypes(),
        arrays.complex_number_dtypes(),
        arrays.datetime64_dtypes(),
    ),
    arrays.array_shapes(min_dims=1, max_dims=3, max_side=3),
)


@given(values=VALUES, size=st.integers(1, 3))
@EXAMPLES
def test_batches_are_those_of_the_arrays(values, size):
    datapoints = [list(values), [Tensor(value) for value in values]]
    ours, theirs = (list(BatchData([[row] for row in rows], size, remainder=True)) for rows in datapoints)
    assert bits(ours) == bits(theirs)
    ours, theirs = ([{"a": row, "b": 1} for row in rows] for rows in datapoints)
    assert bits(BatchData(ours, size, remainder=True)) == bits(BatchData(theirs, size, remainder=True))
    if values.ndim > 1:
        ours, theirs = (list(BatchDataByShape([[row] for row in rows], size, 0)) for rows in datapoints)
        assert bits(ours) == bits(theirs)


@given(values=VALUES)
@EXAMPLES
def test_columns_are_those_of_the_arrays(values):
    flows = [DataFromArrays([column], shuffle=False) for column in (values, Tensor(values))]
    ours, theirs = map(bits, flows)
    assert ours == theirs
    ours, theirs = (bits(BatchData(flow, 2, remainder=True)) for flow in flows)
    assert ours == theirs


def test_values_of_different_length_are_padded():
    rows = [[1.0, 2.0], [3.0], np.zeros(0)]
    (batch,) = PadBatchData([[Tensor(row)] for row in rows], 3)
    assert same(batch, [np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 0.0]])])


def test_shapes_and_dtypes_are_compared_as_those_of_arrays():
    with pytest.raises(BatchError, match="has dtype int64 in component 0, and the batch began with float64"):
        list(BatchData([[Tensor([1.0])], [Tensor([1])]], 2))
    with pytest.raises(BatchError, match=r"has shape .2,. in component 0, and the batch began with .1,."):
        list(BatchData([[Tensor([1.0])], [np.ones(2)]], 2))


def test_a_tensor_that_numpy_does_not_read_is_named_with_the_reason():
    reason = r"component 0, which numpy.asarray\(\) refuses \(TypeError: can't convert a tensor of a device"
    for flow in (BatchData([[OfDevice([1])]], 1), PadBatchData([[OfDevice([1])]], 1)):
        with pytest.raises(BatchError, match=reason):
            list(flow)


def test_objects_are_refused():
    with pytest.raises(BatchError, match="which NumPy converts to an array of objects"):
        list(BatchData(DataFromList([[Tensor([object()])]]), 1))
