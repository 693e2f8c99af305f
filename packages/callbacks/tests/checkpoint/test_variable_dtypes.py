"""Values of all variable types are restored from files exactly, or refused by name."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CheckpointWriteError
from towerpack_callbacks.checkpoint import (
    assign_variables,
    load_variables,
    read_checkpoint,
    write_checkpoint,
)
from towerpack_callbacks.writing import write_archive

TEXT = np.array([b"a\0", b"", "\u20ac\U0001f600".encode()], object)
FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)]
TYPES = [
    name
    for name in [*FLOATS, *WHOLE, "complex64", "complex128", "bool", "string"]
    # Not all releases of TensorFlow have the small types.
    if hasattr(tf.dtypes, name)
]


def values_of(name):
    dtype = np.dtype(tf.as_dtype(name).as_numpy_dtype)
    if name == "string":
        return TEXT
    if name in FLOATS or name.startswith("complex"):
        return np.array([1.5, float("nan"), -0.0]).astype(dtype)
    bits = 64 if name == "bool" else int(name.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return np.array([low, high, 1], np.uint64 if low == 0 else np.int64).astype(dtype)


def assigned(name, value):
    """Returns the value of a variable of some type, once it has been assigned."""
    with tf.Graph().as_default(), tf.Session() as sess:
        initial = tf.constant(["x"] * 3) if name == "string" else tf.zeros([3], name)
        variable = tf.Variable(initial, use_resource=True, name="v")
        sess.run(variable.initializer)
        assign_variables(sess, {"v": value})
        return sess.run(variable)


def assert_same(read, value):
    assert read.dtype == value.dtype
    assert read.tolist() == value.tolist() if value.dtype.hasobject else read.tobytes() == value.tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_values_of_each_type_come_back(tmp_path, name):
    value = values_of(name)
    write_checkpoint(tmp_path / "model-1", {"v": value}, {})
    read = load_variables(tmp_path / "model-1")["v"]
    assert_same(read, value)
    assert_same(assigned(name, read), value)
    archive = tmp_path / "v.npz"
    if name == "string":
        with pytest.raises(TypeError, match=r"arrays of objects or text: v\. Leave them out"):
            write_archive(archive, {"v": value})
    else:
        write_archive(archive, {"v": value})
        restored = assigned(name, load_variables(archive)["v"])
        # Those that NumPy lacks are float32 in an archive, which has one NaN for all.
        assert restored.dtype == value.dtype
        np.testing.assert_array_equal(restored.astype(complex), value.astype(complex))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "there is no variable, but a TensorFlow file needs at least one"),
        ({"": np.zeros(2)}, "a variable has an empty name"),
        ({"a/v": np.ma.masked_equal([1, 2], 1)}, "the variable 'a/v' is a masked array"),
        ({"a/v": np.zeros(2, ">f4")}, "the variable 'a/v' has type >f4"),
        ({"a/v": np.zeros(2, np.longdouble)}, "the variable 'a/v' has type float128"),
        ({"a/v": np.zeros(2, "M8[s]")}, r"the variable 'a/v' has type datetime64\[s\]"),
        ({"a/v": np.zeros(2, "i4,f8")}, r"the variable 'a/v' has type \[\('f0'"),
        ({"a/v": np.zeros(2, tf.qint8.as_numpy_dtype)}, r"the variable 'a/v' has type \[\('qint8'"),
        ({"a/v": np.array([None])}, "could not be written"),
    ],
    ids=["none", "name", "masked", "byte order", "wide", "date", "structure", "quantized", "object"],
)
def test_variables_that_no_file_keeps_are_refused_before_anything_is_replaced(tmp_path, variables, said):
    write_checkpoint(tmp_path / "model-1", {"v": np.ones(3)}, {"before": True})
    with pytest.raises(CheckpointWriteError, match=said):
        write_checkpoint(tmp_path / "model-1", variables, {})
    assert read_checkpoint(tmp_path / "model-1").state == {"before": True}
    assert [path.name for path in tmp_path.iterdir()] == ["model-1"]


def test_a_masked_value_is_not_assigned():
    with pytest.raises(ValueError, match=r"The value for variable 'v' is a masked array; .* Fill it first"):
        assigned("float32", np.ma.masked_equal(np.zeros(3, np.float32), 0))
