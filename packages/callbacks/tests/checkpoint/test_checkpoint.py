"""Checkpoints are there as a whole or not at all."""

import json
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from towerpack_callbacks import (
    Callback,
    CheckpointError,
    CheckpointWriteError,
    MaxSaver,
    MinSaver,
    ModelSaver,
    PeriodicTrigger,
)
from towerpack_callbacks.checkpoint import (
    all_checkpoints,
    assign_variables,
    initial_feeds,
    latest_checkpoint,
    load_variables,
    read_checkpoint,
    snapshot_variables,
    write_checkpoint,
)
from towerpack_callbacks.checkpoint.format import TensorFile

VALUES = {"a/W": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.int64(7)}


def test_what_is_written_is_read(tmp_path):
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
def test_damage_is_noticed(tmp_path, name):
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
def test_what_is_cut_short_is_noticed(tmp_path, name):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {"epoch": 2})
    (path / name).write_bytes((path / name).read_bytes()[:-1])
    with pytest.raises(
        CheckpointError, match=rf"{name} is missing or damaged.*Go on from another checkpoint"
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
        CheckpointError, match=r"is no checkpoint, and holds none. Expected a directory with manifest"
    ):
        read_checkpoint(tmp_path)


def test_unknown_format(tmp_path):
    path = write_checkpoint(tmp_path / "model-7", VALUES, {})
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(CheckpointError, match="has format 99; this version reads format 1"):
        read_checkpoint(path)


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "model-1", VALUES, {})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CheckpointWriteError, match=r"No space left on device.*Earlier checkpoints are whole"
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


@pytest.mark.parametrize("name", ["nothing", "nothing.npz", "empty", "empty.npz", "one_array.npz", "cut.npz"])
def test_unreadable(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.npz").touch()
    with (tmp_path / "one_array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    np.savez(tmp_path / "cut.npz", a=np.zeros(1000))
    with (tmp_path / "cut.npz").open("r+b") as file:
        file.truncate(500)
    with pytest.raises(CheckpointError, match=r"cannot be read|names no TensorFlow checkpoint"):
        load_variables(tmp_path / name)


def test_variables_go_out_and_in_without_new_ops():
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("x", initializer=np.zeros(3, np.float32))
        initializer = tf.global_variables_initializer()
    graph.finalize()
    with tf.Session(graph=graph) as sess:
        sess.run(initializer)
        mine = np.array([1, 2, 3], np.float32)
        assign_variables(sess, {"x": mine})
        mine[:] = 0
        np.testing.assert_array_equal(snapshot_variables(sess, [variable])["x"], [1, 2, 3])
        with pytest.raises(KeyError, match="no variable 'y'"):
            assign_variables(sess, {"y": mine})
        with pytest.raises(ValueError, match=r"'x' has shape \(3,\); received \(2,\)"):
            assign_variables(sess, {"x": mine[:2]})


def test_variables_that_share_an_initial_value_get_their_own():
    with tf.Graph().as_default(), tf.Session() as sess:
        drawn = tf.random_normal([3])
        for name in ("a", "b", "c"):
            tf.Variable(drawn, name=name)
        values = {name: np.full(3, number, np.float32) for number, name in enumerate("abc")}
        assign_variables(sess, values)
        for variable in tf.global_variables():
            np.testing.assert_array_equal(sess.run(variable), values[variable.op.name])


def test_what_can_be_fed_while_all_are_initialised():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        drawn = tf.random_normal([3])
        for name in ("a", "b"):
            tf.Variable(drawn, name=name)
        alone = tf.Variable(tf.zeros([2]), name="alone")
        values = {"a": np.ones(3, np.float32), "alone": np.ones(2, np.float32)}
        feeds, shared = initial_feeds(graph, values)
        assert list(shared) == ["a"]
        sess.run(tf.global_variables_initializer(), feeds)
        np.testing.assert_array_equal(sess.run(alone), [1, 1])


@given(
    st.lists(
        arrays(
            st.sampled_from([np.float32, np.int64, np.bool_, np.uint8, "<f2"]),
            array_shapes(min_dims=0, min_side=0, max_side=5),
        ),
        max_size=6,
    )
)
def test_fed_values_are_equal_copies_aligned_and_apart(originals):
    """TensorFlow takes aligned arrays as they are, so a copy alone keeps variables and arrays apart."""
    with tf.Graph().as_default() as graph:
        for number, array in enumerate(originals):
            tf.Variable(tf.zeros(array.shape, array.dtype), name=f"v{number}")
        feeds, shared = initial_feeds(graph, {f"v{number}": array for number, array in enumerate(originals)})
    assert not shared
    copies = list(feeds.values())
    for original, copy in zip(originals, copies, strict=True):
        np.testing.assert_array_equal(copy, original, strict=True)
        assert not copy.size or copy.ctypes.data % 64 == 0
        assert not any(np.shares_memory(copy, other) for other in originals)
    for one in range(len(copies)):
        for other in range(one):
            assert not np.shares_memory(copies[one], copies[other])


class Accuracy(Callback):
    """Puts one value after another."""

    def __init__(self, values):
        self.values = iter(values)

    def _trigger(self):
        self.trainer.monitors.put_scalar("accuracy", next(self.values))

    def produces(self):
        return ["accuracy"]


def test_model_saver_keeps_the_newest(line):
    line.run([ModelSaver(keep_last=2)], max_epoch=4)
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-9", "model-12"]
    assert latest_checkpoint(line.log_dir).name == "model-12"
    state = read_checkpoint(line.log_dir).state
    assert state["loop"] == {"epoch_num": 4, "local_step": 2, "global_step": 12, "steps_per_epoch": 3}
    assert read_checkpoint(line.log_dir / "latest").variables["global_step"] == 12


def test_what_a_resumed_run_has_not_reached_yet_is_not_counted(line):
    for step in (9, 12):
        write_checkpoint(line.log_dir / f"model-{step}", VALUES, {})
    line.run([ModelSaver(keep_last=1)], max_epoch=2)
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-6", "model-9", "model-12"]
    assert latest_checkpoint(line.log_dir).name == "model-6"


def test_a_state_that_is_not_json_is_named(line):
    class Wrong(Callback):
        def state_dict(self):
            return {"history": [1.0, np.float32(2)]}

    message = r"state\['callbacks'\]\['Wrong'\]\['history'\]\[1\] is .*2.0.* of type float32, which JSON"
    with pytest.raises(CheckpointWriteError, match=message):
        line.run([ModelSaver(), Wrong()])
    assert not list(line.log_dir.iterdir())


def test_a_checkpoint_of_the_beginning(line):
    line.run([PeriodicTrigger(ModelSaver(), before_train=True)])
    assert read_checkpoint(line.log_dir).variables["global_step"] == 0


def test_a_checkpoint_holds_states_after_all_triggers(line):
    line.run([ModelSaver(), Accuracy([0.5, 0.7]), MaxSaver("accuracy")])
    states = read_checkpoint(line.log_dir).state["callbacks"]
    assert states["MaxSaver('accuracy')"] == {"best": 0.7}


def test_leftovers_of_a_killed_run_are_removed(line):
    (line.log_dir / ".writing-model-3-x").mkdir()
    line.run([ModelSaver()])
    assert not list(line.log_dir.glob(".writing-*"))


@pytest.mark.parametrize(
    ("saver", "values", "step"),
    [
        (MaxSaver, [0.5, 0.9, 0.7], 6),
        (MaxSaver, [float("nan"), 0.1, 0.1], 6),
        (MinSaver, [0.5, 0.9, 0.2], 9),
        (MinSaver, [0.5, 0.5, 0.5], 3),
    ],
)
def test_best_savers(line, saver, values, step):
    line.run([Accuracy(values), saver("accuracy")], max_epoch=3)
    kind = "max" if saver is MaxSaver else "min"
    assert read_checkpoint(line.log_dir / f"{kind}-accuracy").variables["global_step"] == step
    # The best alone is kept: the link and what it points to.
    assert len(list(line.log_dir.glob(f"{kind}-*"))) == 2


def test_best_of_an_earlier_run_is_forgotten(straight_line, tmp_path):
    saver = MaxSaver("accuracy")
    for name, values in (("first", [0.9]), ("second", [0.5])):
        straight_line(tmp_path / name).run([Accuracy(values), saver], max_epoch=1)
    second = read_checkpoint(tmp_path / "second" / "max-accuracy")
    assert second.state["callbacks"]["MaxSaver('accuracy')"] == {"best": 0.5}


def test_best_is_remembered(line):
    saver = MaxSaver("accuracy")

    class Resume(Callback):
        def _before_train(self):
            saver.load_state_dict({"best": 0.9})

    line.run([Resume(), Accuracy([0.8, 0.95, 0.93]), saver], max_epoch=3)
    assert [path.name for path in line.log_dir.glob("max-accuracy-*")] == ["max-accuracy-6"]
    assert saver.state_dict() == {"best": 0.95}


def test_savers_need_a_place(line):
    line.log_dir = None
    with pytest.raises(ValueError, match="ModelSaver has nowhere to write: give log_dir="):
        line.run([ModelSaver()])
