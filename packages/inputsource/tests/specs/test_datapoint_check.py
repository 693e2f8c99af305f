import numpy as np
import pytest
import tensorflow.compat.v1 as tf

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
    """An array at an address that is a multiple of 64, plus an offset."""
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
        ([[[1, 2]], np.float32(1)], DatapointTypeError, r"component 1 \('label'\): received dtype float32"),
        ([[[1, 2]], "three"], DatapointTypeError, r"component 1 \('label'\): received dtype <U5"),
        ([[[1, 2]], None], DatapointTypeError, r"component 1 \('label'\): received dtype object"),
    ],
)
def test_mismatches_are_named(datapoint, error, message):
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
def test_arrays_copied_by_tensorflow_are_not_copied_here(offset):
    array = aligned((4, 2), offset=offset)
    assert check([array, 0])[0] is array


def test_memory_of_bytes_is_not_copied():
    text = bytes(4 * 8 + 64)
    skipped = -np.frombuffer(text, "uint8").ctypes.data % 64
    array = np.frombuffer(text, "float32", 8, skipped).reshape(4, 2)
    assert check([array, 0])[0] is array


def test_a_read_only_array_that_owns_its_memory_is_copied():
    """An older view writes to it still, and `setflags` makes it writeable again."""
    array = aligned((4, 2))
    older = array[:]
    base = array
    while base is not None:
        base.flags.writeable = False
        base = base.base
    [taken, _] = check([array, 0])
    older[:] = 5
    assert not np.shares_memory(taken, array) and not taken.any()


def of(dtype, shape=None):
    return compile_check([Component("x", np.dtype(dtype), shape)])


@pytest.mark.parametrize("declared", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("received", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("value", [0, 127, 128, 255, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, -1, -(2**63)])
def test_integers_of_another_width_are_converted_where_they_fit(declared, received, value):
    if not np.iinfo(received).min <= value <= np.iinfo(received).max:
        return
    given = np.array([1, value], received)
    for component in (given, given[1]):
        if np.iinfo(declared).min <= value <= np.iinfo(declared).max:
            [taken] = of(declared)([component])
            assert taken.dtype == declared and taken.ravel()[-1] == value
        else:
            with pytest.raises(
                DatapointTypeError, match=f"received {value}, which is not a value of .*{declared}"
            ):
                of(declared)([component])


@pytest.mark.parametrize(
    ("received", "declared", "taken"),
    [
        ("float16", "float32", True),
        ("float32", "float64", True),
        ("complex64", "complex128", True),
        ("float64", "float32", False),
        ("float32", "int32", False),
        ("int8", "float32", False),
        ("bool", "int32", False),
        ("int32", "bool", False),
        ("float32", "complex64", False),
        ("complex64", "float32", False),
        (">i4", "int32", False),
    ],
)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_arrays_become_wider_and_never_another_kind(received, declared, taken, shape):
    array = np.ones(shape, received)
    if taken:
        assert of(declared)([array])[0].dtype == declared
    else:
        with pytest.raises(DatapointTypeError, match=f"received dtype {received}, declared is {declared}"):
            of(declared)([array])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1 + 2j, "float32"),
        (1 + 2j, "int32"),
        (1e300, "float32"),
        ([0.0, -1e300], "float32"),
        (70000, "float16"),
        (70000.0, "float16"),
        (2**24 + 1, "float32"),
        (2**53 + 1, "float64"),
        (1e300 + 1j, "complex64"),
        (1700000001.25, "float32"),
        ([0.5, 2.0**24 + 1], "float32"),
        (1j * (2.0**24 + 1), "complex64"),
        (-1, "uint64"),
        (2**70, "float64"),
        (float("nan"), "int32"),
        (float("inf"), "bool"),
        (2, "bool"),
        (1e300, tf.bfloat16.as_numpy_dtype),
        (300, tf.qint8.as_numpy_dtype),
    ],
)
def test_a_python_number_that_would_become_another_is_refused(value, dtype):
    with pytest.raises(DatapointTypeError, match="component 0 \\('x'\\): received"):
        of(dtype)([value])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.1, "float16"),
        (1e-300, "float32"),
        (1e10, "float32"),
        (2049.5, "float16"),
        (float("inf"), "float32"),
        (float("-inf"), "float16"),
        (2**24, "float32"),
        (1, "float16"),
        (0.5, "complex64"),
        (2j, "complex64"),
        (1.5, tf.bfloat16.as_numpy_dtype),
        (3, tf.bfloat16.as_numpy_dtype),
        (True, "float32"),
    ],
)
def test_a_python_number_is_rounded_and_no_more(value, dtype):
    [taken] = of(dtype)([value])
    assert taken.dtype == dtype and taken == np.asarray(value).astype(dtype)


def test_nan_stays_nan():
    assert np.isnan(of("float32")([[float("nan"), 1.0]])[0]).tolist() == [True, False]


def test_a_mask_is_not_dropped():
    with pytest.raises(DatapointTypeError, match=r"received a masked array.*x\.filled\(0\)"):
        of("float32")([np.ma.array(np.ones(2, "float32"), mask=[True, False])])
    assert of("float32")([np.ma.array(np.ones(2, "float32"))])[0].tolist() == [1, 1]


def test_a_buffer_that_is_no_array_is_copied():
    memory = bytearray(64)
    [taken] = of("uint8")([memoryview(memory)])
    memory[0] = 1
    assert not taken.any()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "received None of type NoneType, declared are strings"),
        (3, "received 3 of type int"),
        (["a", 3.0], "received 3.0 of type float"),
        (np.array(["a", None], object), "received None of type NoneType"),
        ("\ud800", r"received '\\ud800', which UTF-8 cannot encode \(surrogates not allowed\)"),
        (np.array(["a\udfff"]), r"received .a.udfff., which UTF-8 cannot encode"),
        (bytearray(b"a"), "received 97 of type int"),
        ([["a"], ["b", "c"]], r"received \['a'\] of type list"),
    ],
)
def test_values_that_are_not_text_are_refused(value, message):
    with pytest.raises(DatapointTypeError, match=r"component 0 \('text'\): " + message):
        compile_check([TEXT])([value])


@pytest.mark.parametrize("dtype", ["float32", object])
def test_a_mask_in_a_list_is_not_dropped(dtype):
    masked = np.ma.array(["a", "b"] if dtype is object else [1.0, 2.0], mask=[True, False])
    for value in ([masked], [masked, [masked]], masked):
        with pytest.raises(DatapointTypeError, match="received a masked array"):
            of(dtype)([value])


def test_an_integer_that_stands_among_floats_is_not_rounded():
    with pytest.raises(DatapointTypeError, match="component 0"):
        of("float64")([[2**53 + 1, 0.5]])
    assert of("float64")([[2**53, 0.5]])[0].tolist() == [2**53, 0.5]


def test_a_unit_is_not_dropped():
    class Metres(np.ndarray):
        unit = "m"

    for value in (np.ones(2).view(Metres), [np.ones(2).view(Metres)]):
        with pytest.raises(DatapointTypeError, match="received Metres, a subclass of array"):
            of("float64")([value])
    assert of("float64")([np.ones((1, 2)).view(np.matrix)])[0].tolist() == [[1, 1]]
