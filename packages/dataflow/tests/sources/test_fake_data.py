import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, ArgumentTypeError, FakeData
from towerpack_dataflow.testing import check_dataflow

FLOWS = {
    "random": lambda: FakeData([[2, 3], []], 12),
    "constant": lambda: FakeData([[2], [4, 1]], 12, random=False, dtype=["uint8", "float64"]),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_shapes_dtypes_and_domains():
    flow = FakeData([[50, 4], [50]], 3, dtype=["float32", "int64"], domain=[(-1, 1), (5, 9)])
    for array, numbers in flow:
        assert array.shape == (50, 4)
        assert array.dtype == "float32"
        assert -1 <= array.min() < 0 < array.max() < 1
        assert set(numbers.tolist()) == {5, 6, 7, 8}
    assert len(flow) == 3
    assert flow.addressable


def test_shapes_of_any_iterable():
    [(array, numbers)] = FakeData([np.array([2, 3]), range(4, 6)], 1)
    assert array.shape == (2, 3)
    assert numbers.shape == (4, 5)


def test_constant_data_are_the_same_in_each_pass():
    flow = FakeData([[2]], 3, random=False)
    values = {array.tobytes() for _ in range(2) for (array,) in flow}
    assert len(values) == 1
    assert {array.tobytes() for (array,) in FakeData([[2]], 3)} != values
    assert not np.array_equal(*[array for (array,) in FakeData([[2]], 2)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3],), "shapes is a list of shapes, one for each component; received"),
        (([[-1]],), "an axis is an integer from 0 up"),
        (([[2]], 0), "size is an integer from 1 up"),
        (([[2]], 5, True, ["float32", "int8"]), "dtype has 2 members, and shapes has 1"),
        (([[2]], 5, True, "float32", [(0, 1), (0, 1)]), "domain has 2 members, and shapes has 1"),
        (([[2]], 5, True, "float32", (1, 0)), "a domain is a pair .least, most. of numbers"),
        (([[2]], 5, True, "float32", 7), "a domain is a pair"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        FakeData(*arguments)


def test_an_unknown_dtype():
    with pytest.raises(ArgumentTypeError, match="dtype is the name of a NumPy dtype, such as 'float32'"):
        FakeData([[2]], dtype="float33")
