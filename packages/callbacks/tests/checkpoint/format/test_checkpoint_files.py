"""Checkpoints are written atomically."""

import json
import os
import random
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

from towerpack_callbacks import (
    CheckpointError,
    CheckpointWriteError,
)
from towerpack_callbacks.checkpoint import (
    latest_checkpoint,
    load_variables,
    read_checkpoint,
    write_checkpoint,
)
from towerpack_callbacks.checkpoint.format import TensorFile, wrong_file

VALUES = {"a/W": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.int64(7)}


def test_a_written_checkpoint_is_read(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    checkpoint = read_checkpoint(path)
    assert checkpoint.state == {"epoch": 2}
    assert checkpoint.versions["tensorflow"] == tf.__version__
    np.testing.assert_array_equal(checkpoint.variables["a/W"], VALUES["a/W"])
    assert tf.train.load_checkpoint(str(path / "variables")).get_tensor("step") == 7
    assert os.listdir(tmp_path) == ["model-7"]


def test_writing_again_replaces(tmp_path):
    write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 1})
    write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    assert read_checkpoint(tmp_path / "model-7").state == {"epoch": 2}
    assert os.listdir(tmp_path) == ["model-7"]


@pytest.mark.parametrize("name", ["variables.data-00000-of-00001", "state.json", "variables.index"])
def test_damage_is_detected(tmp_path, name):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    told = (
        "variables: .*Checksum does not match.*It is damaged" if ".data" in name else "is missing or damaged"
    )
    with pytest.raises(CheckpointError, match=told):
        read_checkpoint(path)


@pytest.mark.parametrize("name", ["variables.data-00000-of-00001", "state.json", "variables.index"])
def test_truncation_is_detected(tmp_path, name):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    (path / name).write_bytes((path / name).read_bytes()[:-1])
    with pytest.raises(
        CheckpointError, match=rf"{name} is missing or damaged.*Resume from another checkpoint"
    ):
        read_checkpoint(path)


def test_every_byte_of_the_variables_counts(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {})
    file = path / "variables.data-00000-of-00001"
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match="It is damaged"):
            read_checkpoint(path)


def test_one_writer_for_many_files(tmp_path):
    with TensorFile() as writer:
        for number in range(3):
            writer.write(tmp_path / "same", {"a": np.float32(number), "b": np.array(["x", "y"], object)})
            assert load_variables(tmp_path / "same")["a"] == number
        writer.write(tmp_path / "other", {"a": np.arange(3), "c/d": np.zeros((0, 2), bool)})
    values = load_variables(tmp_path / "other")
    np.testing.assert_array_equal(values["a"], np.arange(3), strict=True)
    np.testing.assert_array_equal(values["c/d"], np.zeros((0, 2), bool), strict=True)
    assert load_variables(tmp_path / "same")["b"].tolist() == [b"x", b"y"]


def test_no_checkpoint_there(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"is not a checkpoint and contains none. Expected a directory with manifest"
    ):
        read_checkpoint(tmp_path)


def test_unknown_format(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {})
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    expected = r"has format 99; this version reads format 1\. .* wrote it: towerpack-callbacks \d"
    with pytest.raises(CheckpointError, match=expected):
        read_checkpoint(path)


def test_every_bit_of_the_manifest_counts(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    content = (path / "manifest.json").read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (path / "manifest.json").write_bytes(flipped)
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


@pytest.mark.parametrize("content", ["[]", "1", "null", "{}", '{"format": 1}', '{"format": "1"}'])
def test_files_that_are_not_manifests(tmp_path, content):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    (path / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"manifest.json is damaged"):
        read_checkpoint(path)
    assert wrong_file(path) == "manifest.json"


def test_manifests_of_earlier_releases_have_no_checksum(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["crc32"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert read_checkpoint(path).state == {"epoch": 2}


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "model-1", VALUES, {})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CheckpointWriteError, match=r"No space left on device.*Earlier checkpoints are complete"
    ) as error:
        write_checkpoint(tmp_path / "model-2", VALUES, {})
    assert isinstance(error.value.__cause__, OSError)
    assert os.listdir(tmp_path) == ["model-1"]


def test_load_variables_from_all_it_knows(tmp_path):
    path = write_checkpoint(tmp_path / "run" / "model-7", VALUES, {})
    np.savez(tmp_path / "values.npz", **{"a/W:0": VALUES["a/W"]})
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("a/W", initializer=VALUES["a/W"])
        sess.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(sess, str(tmp_path / "saver" / "model"), global_step=3)
    for place in (
        path,
        tmp_path / "run",
        tmp_path / "values.npz",
        prefix,
        prefix + ".index",
        tmp_path / "saver",
    ):
        np.testing.assert_array_equal(load_variables(place)["a/W"], VALUES["a/W"])


ODD = ["[3,4]", "a\\b", "a*b", "a?b", "a\nb", " a ", "ä漢", "{a}", "100%", "a:b", "~a", "\udcff"]


@pytest.mark.parametrize("name", ODD)
def test_any_character_in_the_path(tmp_path, name):
    path = write_checkpoint(tmp_path / name / "model-7", VALUES, {"epoch": 2})
    for place in (path, tmp_path / name):
        np.testing.assert_array_equal(read_checkpoint(place).variables["a/W"], VALUES["a/W"])
    assert latest_checkpoint(tmp_path / name) == path
    os.truncate(path / "variables.data-00000-of-00001", 3)
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        read_checkpoint(tmp_path / name)


@pytest.mark.parametrize("name", [name for name in ODD if "\n" not in name and "\udcff" not in name])
def test_any_character_in_the_name_of_a_checkpoint_of_tensorflow(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    with TensorFile() as file:
        file.write(tmp_path / "model", VALUES)
    for path in tmp_path.glob("model.*"):
        path.rename(directory / f"{name}{path.suffix}")
    (directory / "checkpoint").write_text(str(CheckpointState(model_checkpoint_path=str(directory / name))))
    for place in (directory / name, directory / f"{name}.index", directory, directory / "checkpoint"):
        np.testing.assert_array_equal(load_variables(place)["a/W"], VALUES["a/W"])


@pytest.mark.parametrize("name", ["nothing", "nothing.npz", "empty", "empty.npz", "one_array.npz", "cut.npz"])
def test_unreadable(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.npz").touch()
    with (tmp_path / "one_array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    np.savez(tmp_path / "cut.npz", a=np.zeros(1000))
    with (tmp_path / "cut.npz").open("r+b") as file:
        file.truncate(500)
    with pytest.raises(
        CheckpointError,
        match=r"cannot be read|refers to a TensorFlow checkpoint that does "
        r"not exist",
    ):
        load_variables(tmp_path / name)


def containing_itself():
    state = {}
    state["again"] = [state]
    return state


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (10**5000, r"state\['deep'\]\[0\] is a whole number of 16610 bits, which JSON cannot express"),
        (containing_itself(), "is nested too deeply or contains itself, which JSON cannot express"),
        (1j, r"state\['deep'\]\[0\] is 1j of type complex"),
        (np.arange(2), r"state\['deep'\]\[0\] is array\(\[0, 1\]\) of type ndarray"),
        ({1j: 3}, r"the key 1j of state\['deep'\]\[0\] is 1j of type complex"),
    ],
    ids=["many digits", "circle", "complex", "array", "keys"],
)
def test_a_state_that_json_cannot_express_is_refused_before_anything_is_replaced(tmp_path, value, said):
    write_checkpoint(tmp_path / "model-1", {"w": np.ones(3)}, {"before": True})
    with pytest.raises(CheckpointWriteError, match=said):
        write_checkpoint(tmp_path / "model-1", {"w": np.ones(3)}, {"deep": [value]})
    assert read_checkpoint(tmp_path / "model-1").state == {"before": True}


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        2**64,
        -(2**70),
        float("inf"),
        -0.0,
        "\ud800\r\n\U0001f600",
        None,
        True,
        "",
        (1, (2,)),
        {1: b"x", None: 2},
        b"",
    ],
)
def test_a_state_is_read_as_it_was_written(tmp_path, value):
    [read] = read_checkpoint(
        write_checkpoint(tmp_path / "model-1", {"w": np.ones(3)}, {"deep": [value]})
    ).state["deep"]
    assert (read, type(read), repr(read)) == (value, type(value), repr(value))


@pytest.mark.parametrize(
    "name", ["variables.index", "variables.data-00000-of-00001", "state.json", "manifest.json"]
)
def test_a_flipped_bit_in_any_file_is_detected(tmp_path, name):
    values = {"w": np.arange(100, dtype=np.float32), "text": np.array([b"ab", b""], object)}
    path = write_checkpoint(tmp_path / "model-1", values, {"loop": {"global_step": 1}})
    content = (path / name).read_bytes()
    for bit in random.Random(1).sample(range(8 * len(content)), 25):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        (path / name).write_bytes(changed)
        with pytest.raises(CheckpointError):
            read_checkpoint(path)
    (path / name).write_bytes(content)
    assert read_checkpoint(path).variables["w"][99] == 99
