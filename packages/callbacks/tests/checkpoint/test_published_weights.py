"""Weights of other libraries: safetensors, PyTorch's and Keras' files, and rules for names and axes."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from types import ModuleType

import keras
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import load_variables, load_weights

NAMES = {
    np.dtype("f8"): "F64",
    np.dtype("f4"): "F32",
    np.dtype("f2"): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype("i8"): "I64",
    np.dtype("i4"): "I32",
    np.dtype("u1"): "U8",
    np.dtype("?"): "BOOL",
}
STORAGES = {
    "f8": "DoubleStorage",
    "f4": "FloatStorage",
    "f2": "HalfStorage",
    "i8": "LongStorage",
    "u1": "ByteStorage",
}


def some_arrays(types):
    shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    values = st.sampled_from(types).flatmap(lambda dtype: arrays(dtype, shapes))
    return st.dictionaries(st.text("abc.w_", min_size=1, max_size=8), values, min_size=1, max_size=5)


def same(read, written):
    assert set(read) == set(written)
    for name, array in written.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()


def safetensors(values):
    """The bytes of a file, by the specification."""
    header, data = {"__metadata__": {"format": "np"}}, b""
    for name, array in values.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@given(some_arrays([dtype for dtype in NAMES if dtype.kind != "V"]))
@settings(max_examples=40, deadline=None)
def test_safetensors_are_read_exactly(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    path.write_bytes(safetensors(values))
    same(load_variables(path), values)


def test_bfloat16(tmp_path):
    values = {"w": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)}
    (tmp_path / "w.safetensors").write_bytes(safetensors(values))
    same(load_variables(tmp_path / "w.safetensors"), values)


@given(st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_truncated_safetensors_are_refused(tmp_path_factory, length):
    whole = safetensors({"a": np.arange(7.0), "b": np.arange(5)})
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    path.write_bytes(whole[: min(length, len(whole) - 1)])
    with pytest.raises(CheckpointError, match=r"w\.safetensors"):
        load_variables(path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "expected 8 bytes"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}, "damaged"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 800]}, "damaged"),
        ({"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}, "type 'F4'"),
        ({"dtype": "F32", "shape": "x", "data_offsets": [0, 8]}, "header is invalid"),
        ([], "header is invalid"),
    ],
)
def test_invalid_headers_are_refused(tmp_path, entry, message):
    text = json.dumps({"w": entry}).encode()
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(CheckpointError, match=message):
        load_variables(tmp_path / "w.safetensors")


class Storage:
    """What a tensor of PyTorch refers to in a pickle."""

    def __init__(self, key, array):
        self.key, self.array = key, array


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.parts = storage, offset, shape, strides, False, OrderedDict()

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.parts


@pytest.fixture
def torch_names(monkeypatch):
    """Modules with the names that PyTorch's pickles have, for the pickler alone."""
    package, functions = ModuleType("torch"), ModuleType("torch._utils")
    package._utils = functions
    for name in [*STORAGES.values(), "BFloat16Storage"]:
        setattr(package, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*args):
        raise AssertionError("is never called")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    functions._rebuild_tensor_v2 = _rebuild_tensor_v2
    monkeypatch.setitem(sys.modules, "torch", package)
    monkeypatch.setitem(sys.modules, "torch._utils", functions)
    return package


def pickled(content, package, legacy=False):
    """The pickle of a state dict, and its storages."""
    storages = []

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            if not isinstance(item, Storage):
                return None
            if item not in storages:
                storages.append(item)
            kind = getattr(package, STORAGES[item.array.dtype.str[1:]])
            return ("storage", kind, item.key, "cpu", len(item.array), *([None] if legacy else []))

    file = io.BytesIO()
    Pickler(file, protocol=2).dump(content)
    return file.getvalue(), storages


def archive(path, content, package):
    data, storages = pickled(content, package)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("w/data.pkl", data)
        file.writestr("w/byteorder", "little")
        for storage in storages:
            file.writestr(f"w/data/{storage.key}", storage.array.tobytes())


def old_file(path, content, package):
    """A file as PyTorch before 1.6 wrote it."""
    data, storages = pickled(content, package, legacy=True)
    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    parts = [pickle.dumps(each, 2) for each in head] + [
        data,
        pickle.dumps([each.key for each in storages], 2),
    ]
    parts += [struct.pack("<q", len(each.array)) + each.array.tobytes() for each in storages]
    path.write_bytes(b"".join(parts))


def tensor(array, key):
    steps = [stride // array.itemsize for stride in array.strides]
    return Tensor(Storage(key, array.reshape(-1)), 0, array.shape, tuple(steps))


@pytest.mark.parametrize("write", [archive, old_file])
@given(values=some_arrays(["f8", "f4", "f2", "i8", "u1"]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_state_dicts_are_read_exactly(torch_names, tmp_path_factory, write, values):
    path = tmp_path_factory.mktemp("weights") / "w.pth"
    content = OrderedDict((name, tensor(array, str(key))) for key, (name, array) in enumerate(values.items()))
    write(path, content, torch_names)
    same(load_variables(path), values)


@pytest.mark.parametrize("write", [archive, old_file])
def test_views_of_one_storage_and_a_state_dict_beside_others(torch_names, tmp_path, write):
    storage = Storage("0", np.arange(12, dtype="f4"))
    transposed, part = Tensor(storage, 0, (4, 3), (1, 4)), Tensor(storage, 5, (2,), (1,))
    content = {
        "epoch": 3,
        "state_dict": {"a": {"w": transposed}, "b": part},
        "optimizer": {"lr": 0.1, "m": part},
    }
    write(tmp_path / "w.pt", content, torch_names)
    expected = np.ascontiguousarray(np.arange(12, dtype="f4").reshape(3, 4).T)
    same(load_variables(tmp_path / "w.pt"), {"a.w": expected, "b": np.array([5, 6], "f4")})


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harmed",)


@pytest.mark.parametrize("write", [archive, old_file])
def test_no_code_of_a_file_runs(torch_names, tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "w.pth", {"w": Harmful()}, torch_names)
    with pytest.raises(CheckpointError, match=r"\.system, and only tensors"):
        load_variables(tmp_path / "w.pth")
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (13,), (1,)),
        (11, (2,), (1,)),
        (0, (2,), (-1,)),
        (-1, (2,), (1,)),
        (0, (10**6, 10**6), (0, 0)),
        (0, (2, 2), (1,)),
    ],
)
def test_tensors_outside_their_storage_are_refused(torch_names, tmp_path, offset, shape, strides):
    content = {"w": Tensor(Storage("0", np.arange(12, dtype="f4")), offset, shape, strides)}
    archive(tmp_path / "w.pth", content, torch_names)
    with pytest.raises(CheckpointError, match="tensor"):
        load_variables(tmp_path / "w.pth")


@pytest.mark.parametrize("content", [[1], {"epoch": 3}, {"state_dict": {}}])
def test_a_file_without_tensors_is_refused(torch_names, tmp_path, content):
    archive(tmp_path / "w.pth", content, torch_names)
    with pytest.raises(CheckpointError, match="tensor"):
        load_variables(tmp_path / "w.pth")


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\x80\x02."])
@pytest.mark.parametrize("ending", [".pth", ".safetensors", ".h5", ".keras"])
def test_other_files_are_refused(tmp_path, ending, content):
    (tmp_path / f"w{ending}").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"w{ending}"):
        load_variables(tmp_path / f"w{ending}")


@pytest.fixture(scope="module")
def keras_model():
    inputs = keras.Input([8, 8, 3])
    x = keras.layers.BatchNormalization(name="bn")(keras.layers.Conv2D(4, 3, name="conv")(inputs))
    return keras.Model(inputs, keras.layers.Dense(5, name="fc")(keras.layers.Flatten()(x)))


@pytest.mark.parametrize("ending", [".weights.h5", ".keras", ".h5"])
def test_models_of_keras(keras_model, tmp_path, ending):
    path = tmp_path / f"net{ending}"
    (keras_model.save_weights if ending == ".weights.h5" else keras_model.save)(path)
    read = load_variables(path)
    by_layer = {
        layer.name: [np.asarray(weight) for weight in layer.weights]
        for layer in keras_model.layers
        if layer.weights
    }
    count = 0
    for layer, weights in by_layer.items():
        for index, weight in enumerate(weights):
            found = [
                array
                for name, array in read.items()
                if array.shape == weight.shape and (array == weight).all()
            ]
            assert found, (layer, index)
            count += 1
    assert len(read) == count
    if ending == ".h5":
        assert any(name.endswith("kernel") for name in read)


def test_rules_give_names_and_axes(tmp_path):
    values = {
        "layer1.0.conv2.weight": np.arange(120.0).reshape(5, 4, 3, 2),
        "layer1.0.bn1.num_batches_tracked": np.array(3),
        "fc.weight": np.arange(6.0).reshape(2, 3),
        "fc.bias": np.arange(2.0),
    }
    path = tmp_path / "w.safetensors"
    path.write_bytes(safetensors(values))
    rules = [
        ("layer{g}.{b}.conv{i}.weight", "group{g}/block{b}/conv{i}/W", "OIHW->HWIO"),
        ("layer{g}.{b}.bn{i}.num_batches_tracked", None),
        ("fc.weight", "linear/W", "OI->IO"),
        ("fc.bias", "linear/b"),
    ]
    read = load_weights(path, rules)
    assert set(read) == {"group1/block0/conv2/W", "linear/W", "linear/b"}
    np.testing.assert_array_equal(
        read["group1/block0/conv2/W"], values["layer1.0.conv2.weight"].transpose(2, 3, 1, 0)
    )
    np.testing.assert_array_equal(read["linear/W"], values["fc.weight"].T)
    # Files of older releases lack weights that are left out.
    assert set(load_weights(path, [*rules, ("head.{x}", None)])) == set(read)
    for changed, message in [
        (rules[1:], r"no rule matches 1 of its weights(.|\n)*layer1.0.conv2.weight \(5, 4, 3, 2\)"),
        ([*rules, ("head.{x}", "head/{x}")], "no weight matches the rules"),
        ([*rules[:2], ("fc.{name}", "linear")], "two weights become 'linear'"),
        ([("{a}.{b}.{c}.{d}", "{a}{b}{c}", "OI->IO"), *rules[2:]], "has the shape"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            load_weights(path, changed)


@pytest.mark.parametrize(
    "rule", ["fc", ("fc",), ("fc", "w", "OI->OO"), ("fc", "w", "OI"), (1, "w"), ("a", "b", "c", "d")]
)
def test_rules_of_another_form_are_refused(tmp_path, rule):
    (tmp_path / "w.safetensors").write_bytes(safetensors({"fc": np.zeros((2, 2))}))
    with pytest.raises(TypeError, match="received"):
        load_weights(tmp_path / "w.safetensors", [rule])
