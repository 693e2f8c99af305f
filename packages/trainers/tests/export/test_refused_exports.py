"""Impossible exports raise an error with the reason, and change nothing."""

import contextlib
import fcntl
import os
import resource
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import TensorNotFoundError
from towerpack_trainers import ConfigError, DictRestore, ExportError, ModelExporter, PredictConfig

METHODS = ["export_serving", "export_compact", "export_lite", "export_onnx", "export_variables"]


def exporter_of(kit, overwrite=False, **changes):
    values = {
        "model": kit.Line(),
        "session_init": DictRestore({"slope": np.float32(2)}),
        "input_names": ["x"],
        "output_names": ["mul"],
    }
    return ModelExporter(PredictConfig(**{**values, **changes}), overwrite=overwrite)


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_output(kit, tmp_path, method):
    exporter = exporter_of(kit, output_names=["muls"])
    with pytest.raises(TensorNotFoundError, match=r"no tensor 'muls:0'. Close names are: mul"):
        getattr(exporter, method)(tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"output_names": ["error"]},
            r"outputs error need the input y, which is not in input_names=\['x'\]",
        ),
        ({"input_names": ["x", "y"]}, r"No output \(mul\) depends on the input y. Remove it"),
        ({"output_names": []}, "nothing to export: output_names is empty"),
    ],
    ids=["missing", "idle", "none"],
)
def test_inputs_and_outputs_that_do_not_match(kit, tmp_path, changes, message):
    exporter = exporter_of(kit, **changes)
    for method in METHODS[:3]:
        with pytest.raises(ExportError, match=message):
            getattr(exporter, method)(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_an_object_that_is_not_a_configuration(kit):
    with pytest.raises(ConfigError, match="ModelExporter received 3 of type int; expected a PredictConfig"):
        ModelExporter(3)
    with pytest.raises(TypeError, match=r"list of tags, received one string: 'serve'. Write \['serve'\]"):
        exporter_of(kit).export_serving("model", "serve")


@pytest.mark.parametrize("method", METHODS)
def test_existing_files_are_not_replaced(kit, tmp_path, method):
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"model exists. Choose another path, or allow overwriting"):
        getattr(exporter_of(kit), method)(path)
    assert path.read_text() == "old"


@pytest.mark.parametrize("method", METHODS)
def test_a_directory_of_the_user_is_never_replaced(kit, tmp_path, method):
    path = tmp_path / "model"
    path.mkdir()
    (path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"exists and is not a .*, so it is not replaced"):
        getattr(exporter_of(kit, overwrite=True), method)(path)
    assert os.listdir(path) == ["thesis.tex"]


def test_an_export_is_replaced_on_request(kit, tmp_path):
    exporter = exporter_of(kit)
    exporter.export_serving(tmp_path / "1")
    exporter.export_compact(tmp_path / "line.pb")
    other = exporter_of(kit, overwrite=True, session_init=DictRestore({"slope": np.float32(3)}))
    other.export_serving(tmp_path / "1")
    other.export_compact(tmp_path / "line.pb")
    assert sorted(os.listdir(tmp_path)) == ["1", "line.pb"]
    loaded = tf.compat.v2.saved_model.load(str(tmp_path / "1"))
    result = loaded.signatures["serving_default"](x=tf.constant([2.0]))
    assert result["mul"].numpy() == [6]
    (tmp_path / "1" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"has 'notes\.txt', which is not part of a SavedModel"):
        other.export_serving(tmp_path / "1")
    assert sorted(os.listdir(tmp_path / "1")) == ["notes.txt", "saved_model.pb", "variables"]


def test_files_of_a_killed_export_are_removed_by_the_next(kit, tmp_path):
    left = tmp_path / ".1.writing"
    left.mkdir()
    (left / "half").touch()
    exporter_of(kit).export_serving(tmp_path / "1")
    assert os.listdir(tmp_path) == ["1"]
    assert sorted(os.listdir(tmp_path / "1")) == ["saved_model.pb", "variables"]


def test_two_exports_at_once_do_not_disturb_each_other(kit, tmp_path):
    other = tmp_path / ".1.writing"
    other.mkdir()
    (other / "half").touch()
    descriptor = os.open(other, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(FileExistsError, match=r"/1 is being written by another process\. Wait for it"):
            exporter_of(kit).export_serving(tmp_path / "1")
    finally:
        os.close(descriptor)
    assert os.listdir(tmp_path) == [".1.writing"] and os.listdir(other) == ["half"]


@contextlib.contextmanager
def little_room():
    """Lets no file of this process grow beyond a few bytes; no fixture: pytest writes a log, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("method", ["export_serving", "export_compact", "export_variables"])
def test_a_full_disk_leaves_no_incomplete_file(kit, tmp_path, method):
    exporter = exporter_of(kit)
    with pytest.raises(OSError, match="File too large"), little_room():
        getattr(exporter, method)(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def determinant(x):
    tf.identity(tf.linalg.det(x), name="det")


@pytest.mark.slow
def test_ops_without_counterpart_in_lite(tmp_path):
    signature = [tf.TensorSpec([None, 2, 2], tf.float32, "x")]
    config = PredictConfig(tower_func=determinant, input_signature=signature, output_names=["det"])
    with pytest.raises(ExportError, match=r"LiteRT cannot express this model: TF Select ops: MatrixDet"):
        ModelExporter(config).export_lite(tmp_path / "det.tflite")
    assert os.listdir(tmp_path) == []


def test_onnx_without_its_extra(kit, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-trainers\[onnx\]'"):
        exporter_of(kit).export_onnx(tmp_path / "line.onnx")
    assert os.listdir(tmp_path) == []
