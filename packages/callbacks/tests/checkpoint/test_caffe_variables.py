"""Reading Caffe's models, from files put together here field by field."""

import itertools
import struct

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.__main__ import main
from towerpack_callbacks.checkpoint import load_caffe, load_variables

V1_TYPES = {"Convolution": 4, "InnerProduct": 14, "Pooling": 17, "ReLU": 18}


def varint(number):
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def field(number, content):
    """A field: an integer, a text, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array):
    """A blob of V2: its shape, and packed floats or doubles."""
    number, form = (8, "<f8") if array.dtype == np.float64 else (5, "<f4")
    shape = field(1, b"".join(map(varint, array.shape)))
    return field(7, shape) + field(number, array.astype(form).tobytes())


def blob_of_v1(array):
    """A blob of V1: always four axes; here each float is a field of its own."""
    sizes = (1,) * (4 - array.ndim) + array.shape
    floats = b"".join(varint(5 << 3 | 5) + struct.pack("<f", value) for value in array.ravel())
    return b"".join(field(number, size) for number, size in enumerate(sizes, 1)) + floats


def layer(kind, name, bottoms, tops, *weights, more=b""):
    parts = [field(1, name), field(2, kind), *(field(3, bottom) for bottom in bottoms)]
    parts += [field(4, top) for top in tops] + [field(7, blob(array)) for array in weights]
    return field(100, b"".join(parts) + more)


def layer_of_v1(kind, name, bottoms, tops, *weights):
    parts = [*(field(2, bottom) for bottom in bottoms), *(field(3, top) for top in tops), field(4, name)]
    parts += [field(5, V1_TYPES[kind]), *(field(6, blob_of_v1(array)) for array in weights)]
    return field(2, b"".join(parts))


def normal(*shape):
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape).astype(np.float32)


KERNEL, BIAS, MATRIX = normal(4, 3, 3, 3), normal(4), normal(5, 4 * 2 * 2)


def parts_of_small_network(make):
    """A convolution, a rectifier in place, pooling, and a matrix."""
    return [
        field(1, "small"),
        make("Convolution", "conv1", ["data"], ["conv1"], KERNEL, BIAS),
        make("ReLU", "relu1", ["conv1"], ["conv1"]),
        make("Pooling", "pool1", ["conv1"], ["pool1"]),
        make("InnerProduct", "fc2", ["pool1"], ["fc2"], MATRIX, normal(5)),
    ]


@pytest.fixture
def saved(tmp_path):
    """Writes parts of a file and returns its path."""

    def save(*parts):
        path = tmp_path / "network.caffemodel"
        path.write_bytes(b"".join(parts))
        return path

    return save


def convolved(images, kernel, bias):
    """Caffe's convolution without padding, of [batch, channels, height, width], by its definition."""
    _, _, height, width = kernel.shape
    windows = np.lib.stride_tricks.sliding_window_view(images, (height, width), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel) + bias[:, None, None]


@pytest.mark.parametrize("make", [layer, layer_of_v1])
def test_the_network_computes_what_caffe_defines(saved, make):
    values = load_caffe(saved(*parts_of_small_network(make)))
    assert {name: value.shape for name, value in values.items()} == {
        "conv1/W": (3, 3, 3, 4),
        "conv1/b": (4,),
        "fc2/W": (16, 5),
        "fc2/b": (5,),
    }
    images = normal(2, 3, 6, 6)
    maps = np.maximum(convolved(images, KERNEL, BIAS), 0)
    pooled = maps.reshape(2, 4, 2, 2, 2, 2).max((3, 5))
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.nn.conv2d(images.transpose(0, 2, 3, 1), values["conv1/W"], 1, "VALID") + values["conv1/b"]
        x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID")
        outputs = sess.run(tf.reshape(x, [2, -1]) @ values["fc2/W"] + values["fc2/b"])
    np.testing.assert_allclose(outputs, pooled.reshape(2, -1) @ MATRIX.T + normal(5), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [layer, layer_of_v1])
def test_a_file_cut_off_anywhere_is_refused_or_a_smaller_network(saved, make):
    parts = parts_of_small_network(make)
    content, ends = b"".join(parts), {*itertools.accumulate(map(len, parts))}
    whole = load_caffe(saved(content))
    for size in range(len(content)):
        path = saved(content[:size])
        if size in ends and size > len(parts[0]):
            assert load_caffe(path).keys() < whole.keys()
        else:
            with pytest.raises(CheckpointError, match=r"network\.caffemodel (is no|has no layer)"):
                load_caffe(path)


@settings(max_examples=60)
@given(
    array=arrays(np.float32, array_shapes(min_dims=3, max_dims=5, max_side=4)),
    make_double=st.booleans(),
)
def test_kernels_of_any_number_of_axes_keep_their_values(tmp_path_factory, array, make_double):
    path = tmp_path_factory.getbasetemp() / "kernel.caffemodel"
    path.write_bytes(layer("Convolution", "c", ["x"], ["y"], array.astype("f8") if make_double else array))
    kernel = load_caffe(path)["c/W"]
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(np.moveaxis(kernel, (-1, -2), (0, 1)), array)


@settings(max_examples=200)
@given(places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_is_refused_or_read_but_never_an_error_of_another_type(tmp_path_factory, places):
    content = bytearray(b"".join(parts_of_small_network(layer)))
    for place, byte in places:
        content[place % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.caffemodel"
    path.write_bytes(content)
    try:
        assert all(value.dtype == np.float32 for value in load_caffe(path).values())
    except CheckpointError as error:
        assert "damaged.caffemodel" in str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no layer with weights"),
        (b"\x89PNG\r\n\x1a\n and more", r"is not a \.caffemodel"),
        (field(2, field(1, b"")), "layers have the V0 format"),
        (field(2, b"x")[:2] + b"\x08", r"is not a \.caffemodel"),
        (field(100, field(7, field(7, field(1, b"\x03")) + field(5, bytes(8)))), r"shape \[3\] has 2 values"),
        (field(100, field(7, field(7, field(1, varint(2**63) + b"\0")))), "a blob has the shape"),
        (field(100, field(7, field(5, bytes(7)))), "7 bytes, which is not a whole number of elements"),
        (field(100, field(1, b"\xff")), "is not text"),
        (field(100, 5), "is an integer; expected bytes"),
        (field(2, field(5, "text")), "field 5 is not an integer"),
    ],
)
def test_files_that_are_not_models_are_refused(saved, content, message):
    with pytest.raises(CheckpointError, match=message):
        load_caffe(saved(content))
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_caffe("missing.caffemodel")


def test_statistics_are_divided_by_their_weight_and_scales_join_them(saved):
    mean, variance, weight = normal(4), normal(4) ** 2, np.array([4], np.float32)
    path = saved(
        layer("BatchNorm", "bn1", ["data"], ["data"], mean, variance, weight),
        layer("Scale", "scale1", ["data"], ["data"], normal(4), normal(4) + 1),
        layer("Scale", "scale2", ["data"], ["data"], normal(4)),
        layer("BatchNorm", "bn2", ["data"], ["out"], mean, variance, 0 * weight),
    )
    values = load_caffe(path)
    assert values.keys() == {
        *("bn1/mean/EMA", "bn1/variance/EMA", "bn1/gamma", "bn1/beta"),
        *("scale2/gamma", "bn2/mean/EMA", "bn2/variance/EMA"),
    }
    np.testing.assert_allclose(values["bn1/mean/EMA"], mean / 4, rtol=1e-6)
    np.testing.assert_allclose(values["bn1/variance/EMA"], variance / 4, rtol=1e-6)
    np.testing.assert_array_equal(values["bn1/beta"], normal(4) + 1)
    assert not values["bn2/mean/EMA"].any()


def test_layers_that_join_channels_are_followed_to_the_matrix(saved):
    rows = np.arange(7 * 4, dtype=np.float32)[None]
    path = saved(
        layer("Convolution", "a", ["data"], ["a"], normal(4, 3, 1, 1)),
        layer("Convolution", "b", ["data"], ["b"], normal(3, 3, 1, 1), normal(3)),
        layer("Concat", "both", ["a", "b"], ["both"]),
        layer("InnerProduct", "fc", ["both"], ["fc"], rows.T, more=field(117, field(6, 1))),
        layer("InnerProduct", "out", ["fc"], ["out"], np.ones((2, 1), np.float32)),
    )
    values = load_caffe(path)
    np.testing.assert_array_equal(values["fc/W"].ravel(), rows.reshape(7, 2, 2).transpose(1, 2, 0).ravel())
    assert values["out/W"].shape == (1, 2)


def test_the_order_of_a_matrix_behind_the_data_must_be_given(saved):
    rows = np.arange(12, dtype=np.float32)[None]
    path = saved(layer("InnerProduct", "fc", ["data"], ["fc"], rows))
    with pytest.raises(CheckpointError, match=r"order of the 12 inputs of layer 'fc' is unknown\. Give"):
        load_caffe(path)
    images = load_caffe(path, {"fc": (2, 2, 3)})["fc/W"]
    np.testing.assert_array_equal(images.ravel(), rows.reshape(2, 2, 3).transpose(1, 2, 0).ravel())
    np.testing.assert_array_equal(load_caffe(path, {"fc": (12,)})["fc/W"], rows.T)
    with pytest.raises(CheckpointError, match=r"12 inputs; received the shape \(2, 2, 2\)"):
        load_caffe(path, {"fc": (2, 2, 2)})
    with pytest.raises(CheckpointError, match="no InnerProduct layer 'other'"):
        load_caffe(path, {"fc": (12,), "other": (1,)})


def test_blobs_without_a_counterpart_are_kept_and_names_stay_unique(saved):
    prelu = layer("PReLU", "relu", ["x"], ["x"], normal(4))
    np.testing.assert_array_equal(load_caffe(saved(prelu))["relu/blob0"], normal(4))
    with pytest.raises(CheckpointError, match="two layers give 'relu/blob0'"):
        load_caffe(saved(prelu, prelu))


def test_models_are_read_wherever_checkpoints_are(saved, tmp_path, capsys):
    path, archive = saved(*parts_of_small_network(layer)), tmp_path / "network.npz"
    assert main(["checkpoint", "export", str(path), "-o", str(archive)]) in (0, None)
    assert "network.npz: 4 variables" in capsys.readouterr().out
    for name, value in load_variables(archive).items():
        np.testing.assert_array_equal(value, load_variables(path)[name])
