import numpy as np
import pytest

from towerpack_inputsource import (
    DatapointError,
    DatapointShapeError,
    DatapointStructureError,
    DatapointTypeError,
)
from towerpack_inputsource.specs import Component, compile_check

IMAGE = Component("image", np.dtype("float32"), (None, 2))
LABEL = Component("label", np.dtype("int32"), ())
TEXT = Component("text", np.dtype(object), None)
check = compile_check([IMAGE, LABEL])


def aligned(shape, dtype="float32", offset=0):
    """An array whose address is a multiple of 64, plus an offset."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 128, "uint8")
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + count].view(dtype).reshape(shape)


@pytest.mark.parametrize("make", [list, tuple, lambda parts: dict(zip(("image", "label"), parts))])
def test_lists_and_tuples_go_by_order_and_dicts_by_name(make):
    image, label = check(make([np.ones((3, 2), "float32"), np.int32(7)]))
    assert image.shape == (3, 2) and image.dtype == np.float32
    assert label == 7 and label.dtype == np.int32


def test_dict_order_does_not_matter():
    _, label = check({"label": 3, "image": np.zeros((1, 2), "float32")})
    assert label == 3


@pytest.mark.parametrize(
    ("value", "component", "expected"),
    [
        (3, LABEL, np.int32(3)),
        (True, LABEL, np.int32(1)),
        (2.0, LABEL, np.int32(2)),
        ([[1, 2]], IMAGE, np.array([[1, 2]], "float32")),
        (0.1, IMAGE._replace(shape=()), np.float32(0.1)),
        ("words", TEXT, np.array("words", object)),
        (b"bytes", TEXT, np.array(b"bytes", object)),
        (["a", "b"], TEXT, np.array(["a", "b"], object)),
        (np.array(["a", "b"]), TEXT, np.array(["a", "b"], object)),
    ],
)
def test_plain_python_values_are_converted(value, component, expected):
    [array] = compile_check([component])([value])
    assert array.dtype == component.dtype
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("datapoint", "error", "message"),
    [
        (
            [1],
            DatapointStructureError,
            r"received 1 components, declared are 2: \['image', 'label'\].*MapData",
        ),
        (np.zeros(2), DatapointStructureError, "received ndarray instead of a list, tuple or dict"),
        ({"image": 1, "lable": 2}, DatapointStructureError, r"keys \['image', 'lable'\], declared are"),
        (
            [np.zeros((1, 2)), 1],
            DatapointTypeError,
            r"component 0 \('image'\): received dtype float64, declared is float32.*"
            r"MapDataComponent\(df, .*'float32'\), 0\)",
        ),
        ([np.zeros((1, 2), ">f4"), 1], DatapointTypeError, "received dtype >f4"),
        (
            [np.zeros((1, 3), "float32"), 1],
            DatapointShapeError,
            r"component 0 \('image'\): received shape \(1, 3\), declared is \(None, 2\)",
        ),
        ([np.zeros(2, "float32"), 1], DatapointShapeError, r"received shape \(2,\)"),
        ([[[1, 2], [3]], 1], DatapointShapeError, r"component 0 \('image'\): cannot make an array"),
        (
            [[[1, 2]], [5]],
            DatapointShapeError,
            r"component 1 \('label'\): received shape \(1,\), declared is \(\)",
        ),
        (
            [[[1, 2]], 2**40],
            DatapointTypeError,
            r"component 1 \('label'\): received 1099511627776, which is not",
        ),
        (
            [[[1, 2]], 0.5],
            DatapointTypeError,
            "received 0.5, which is not a value of the declared dtype int32",
        ),
        ([[[1, 2]], np.int64(1)], DatapointTypeError, r"component 1 \('label'\): received dtype int64"),
        ([[[1, 2]], "three"], DatapointTypeError, r"component 1 \('label'\): received dtype <U5"),
        ([[[1, 2]], None], DatapointTypeError, r"component 1 \('label'\): received dtype object"),
    ],
)
def test_what_does_not_fit_is_named(datapoint, error, message):
    with pytest.raises(error, match=message) as caught:
        check(datapoint)
    assert isinstance(caught.value, DatapointError) and isinstance(caught.value, ValueError)


def test_a_number_is_no_text():
    with pytest.raises(DatapointTypeError, match="declared is str"):
        compile_check([TEXT])([np.zeros(3)])


def test_unknown_rank_takes_any_shape():
    take = compile_check([IMAGE._replace(shape=None)])
    assert take([np.zeros((1, 2, 3), "float32")])[0].shape == (1, 2, 3)


@pytest.mark.parametrize("offset", [0, 64])
def test_memory_that_may_be_written_to_is_copied_where_tensorflow_would_not(offset):
    array = aligned((4, 2), offset=offset)
    [taken, _] = check([array, 0])
    assert not np.shares_memory(taken, array)
    view = array[:]
    view.flags.writeable = False
    [taken, _] = check([view, 0])
    assert not np.shares_memory(taken, array), "somebody can write through the base"
    foreign = np.frombuffer(memoryview(bytearray(array.tobytes())), "float32")[:0].reshape(0, 2)
    foreign.flags.writeable = False
    assert check([foreign, 0])[0].size == 0


@pytest.mark.parametrize("offset", [4, 16, 32])
def test_what_tensorflow_copies_is_not_copied_here(offset):
    array = aligned((4, 2), offset=offset)
    assert check([array, 0])[0] is array


def test_frozen_memory_is_not_copied():
    array = aligned((4, 2))
    base = array
    while base is not None:
        base.flags.writeable = False
        base = base.base
    assert check([array, 0])[0] is array
