"""Restored values, refused values, and the descriptions of differences."""

import contextlib
import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import write_checkpoint
from towerpack_trainers import (
    ConfigError,
    DictRestore,
    RestoreError,
    SaverRestore,
    SessionInit,
    SimpleTrainer,
    SmartInit,
    TrainConfig,
)
from towerpack_trainers.restore import match_variables

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.ones(3, np.float32)


@pytest.fixture
def sess():
    """A session with the variables fc/W (2, 3), fc/b (3) and step, all zeros, in a final graph."""
    with tf.Graph().as_default() as graph:
        for name, shape, dtype in (
            ("fc/W", [2, 3], tf.float32),
            ("fc/b", [3], tf.float32),
            ("step", [], tf.int64),
        ):
            tf.get_variable(name, shape, dtype, initializer=tf.zeros_initializer())
        initializer = tf.global_variables_initializer()
    graph.finalize()
    # Not as a context: outside of it, TensorFlow is eager.
    with contextlib.closing(tf.Session(graph=graph)) as session:
        session.run(initializer)
        yield session


@pytest.fixture
def save(tmp_path):
    """Writes a checkpoint of the given arrays."""

    def write(**values):
        named = {name.replace("__", "/"): value for name, value in values.items()}
        return write_checkpoint(tmp_path / "model-1", named, {})

    return write


def value(sess, name):
    return sess.run(
        f"{name}:0" if ":" in name else sess.graph.get_tensor_by_name(f"{name}/Read/ReadVariableOp:0")
    )


def test_saver_restore_restores_everything(sess, save):
    path = save(fc__W=KERNEL, fc__b=BIAS, step=np.int64(7), more=BIAS)
    SaverRestore(path).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    assert value(sess, "step") == 7


def test_saver_restore_ignores_by_name(sess, save):
    SaverRestore(save(fc__W=KERNEL), ignore=["fc/b", "step:0"]).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    np.testing.assert_array_equal(value(sess, "fc/b"), np.zeros(3))


def test_saver_restore_under_a_scope(sess, save):
    SaverRestore(save(W=KERNEL, b=BIAS), prefix="fc").restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/b"), BIAS)
    assert value(sess, "step") == 0
    with pytest.raises(RestoreError, match=r"no variable to restore with a name that begins with 'fd/'"):
        SaverRestore(save(W=KERNEL), prefix="fd").restore(sess)


def test_saver_restore_lists_all_differences(sess, save):
    path = save(fc__W=KERNEL.T, fc__b=BIAS.astype(np.int32), more=BIAS)
    with pytest.raises(RestoreError) as caught:
        SaverRestore(path).restore(sess)
    assert str(caught.value) == (
        f"{path} does not match this graph:\n"
        "  only in the graph: step\n"
        "  only in the restored values: more\n"
        "  of another shape or type: fc/W: the graph has shape (2, 3), the restored value has (3, 2)\n"
        "  of another shape or type: fc/b: the graph has float32, the restored value has int32\n"
        "Name variables to skip in ignore=, or use SmartInit(path) to restore matching variables."
    )
    np.testing.assert_array_equal(value(sess, "fc/W"), np.zeros((2, 3)))


def test_an_exact_restore_allows_no_difference(sess):
    everything = {"fc/W": KERNEL, "fc/b": BIAS, "step": np.int64(1)}
    assert match_variables(sess.graph, everything, "it") == everything
    with pytest.raises(
        RestoreError, match=r"it does not match this graph:\n  only in the restored values: more\n"
    ):
        match_variables(sess.graph, {**everything, "more": BIAS}, "it")


def test_dict_restore_restores_names_on_both_sides(sess, caplog):
    DictRestore({"fc/W:0": KERNEL, "other": BIAS}).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    assert "only in the graph: fc/b" in caplog.text
    assert "only in the restored values: other" in caplog.text


def test_many_values_without_a_variable_are_one_line(sess, caplog):
    slots = {f"fc/W/slot{number}": KERNEL for number in range(27)}
    SmartInit({"fc/W": KERNEL, "fc/b": BIAS, "step": np.int64(1), **slots}).restore(sess)
    named = "fc/W/slot0, fc/W/slot1, fc/W/slot10 and 24 more"
    assert caplog.messages[0].splitlines()[1:] == [f"  only in the restored values: {named}"]


def test_dict_restore_keeps_no_references_to_the_arrays(sess):
    mine = np.zeros(16 * 64, np.float32)[:3]
    DictRestore({"fc/b": mine}).restore(sess)
    mine[:] = 5
    np.testing.assert_array_equal(value(sess, "fc/b"), np.zeros(3))


def test_dict_restore_of_other_shapes(sess, caplog):
    values = {"fc/W": KERNEL, "fc/b": np.ones(4, np.float32)}
    with pytest.raises(
        RestoreError,
        match=r"fc/b: the graph has shape \(3,\), the restored value has \(4,\)\nUse ignore_mismatch=True",
    ):
        DictRestore(values).restore(sess)
    DictRestore(values, ignore_mismatch=True).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    np.testing.assert_array_equal(value(sess, "fc/b"), np.zeros(3))


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        (
            "step32",
            np.int64(2**40 + 5),
            "the graph has int32, the restored value has int64, with values that the graph",
        ),
        (
            "byte",
            np.uint16(300),
            "the graph has uint8, the restored value has uint16, with values that the graph",
        ),
        (
            "half",
            np.float32(1e10),
            "the graph has float16, the restored value has float32, with values that the",
        ),
        (
            "brain",
            np.float64(1e300),
            "the graph has bfloat16, the restored value has float64, with values that",
        ),
        ("step32", np.uint32(1), "the graph has int32, the restored value has uint32"),
        ("brain", np.int32(1), "the graph has bfloat16, the restored value has int32"),
        ("byte", np.zeros((), "V1"), "the graph has uint8, the restored value has void8"),
    ],
)
def test_a_type_that_cannot_hold_the_values_is_a_difference(tmp_path, name, wrong, said):
    np.savez(tmp_path / "values.npz", **{name: wrong})
    kinds = {"step32": tf.int32, "byte": tf.uint8, "half": tf.float16, "brain": tf.bfloat16}
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        variable = tf.get_variable(name, [], kinds[name], initializer=tf.zeros_initializer())
        sess.run(variable.initializer)
        for init in (SaverRestore, SmartInit, lambda path: DictRestore(dict(np.load(path)))):
            with pytest.raises(RestoreError, match=said):
                init(tmp_path / "values.npz").restore(sess)
        with pytest.raises(RestoreError, match=said.split(", with")[0]):
            match_variables(graph, dict(np.load(tmp_path / "values.npz")), "it")
        assert sess.run(variable) == 0


def test_floats_are_rounded_and_fitting_integers_are_restored():
    with tf.Graph().as_default(), tf.Session() as sess:
        kinds = {"a": tf.float32, "b": tf.bfloat16, "c": tf.int64}
        variables = {n: tf.get_variable(n, initializer=tf.zeros([], kind)) for n, kind in kinds.items()}
        SmartInit({"a": np.float64(0.1), "b": np.float32(1.001), "c": np.int32(-3)}, allow=[]).restore(sess)
        assert sess.run(variables) == {"a": np.float32(0.1), "b": 1, "c": -3}


def test_no_matching_value_is_an_error(sess):
    with pytest.raises(
        RestoreError, match=r"None of the values matches this graph:\n  only in the graph: fc/W"
    ):
        SmartInit({"other": BIAS}).restore(sess)


@pytest.mark.parametrize("nothing", [None, "", {}, []], ids=repr)
def test_smart_init_of_nothing(sess, nothing):
    SmartInit(nothing).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), np.zeros((2, 3)))


def test_smart_init_of_files_dictionaries_and_lists(sess, save, tmp_path):
    np.savez(tmp_path / "bias.npz", **{"fc/b:0": BIAS})
    SmartInit([save(fc__W=KERNEL), str(tmp_path / "bias.npz"), {"step": np.int64(3)}]).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    np.testing.assert_array_equal(value(sess, "fc/b"), BIAS)
    assert value(sess, "step") == 3


def test_smart_init_passes_a_session_init_on():
    init = DictRestore({})
    assert SmartInit(init) is init


@pytest.mark.parametrize(
    ("rename", "names"),
    [
        ({"a/W": "fc/W", "a/b": "fc/b"}, ["a/W", "a/b"]),
        ({"a": "fc"}, ["a/W", "a/b"]),
        ({"net/top": "fc", "net": "elsewhere"}, ["net/top/W", "net/top/b"]),
        ({"net": ""}, ["net/fc/W", "net/fc/b"]),
        (lambda name: name.replace("dense", "fc"), ["dense/W", "dense/b"]),
        (lambda name: None if "Momentum" in name else name, ["fc/W", "fc/b", "fc/W/Momentum"]),
    ],
    ids=["names", "scopes", "the longest scope", "no scope", "function", "left out"],
)
def test_renaming(sess, rename, names):
    values = dict(zip(names, (KERNEL, BIAS, KERNEL)))
    SmartInit(values, rename=rename, ignore=["step"], allow=[]).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    np.testing.assert_array_equal(value(sess, "fc/b"), BIAS)


def test_renaming_two_to_one(sess):
    init = SmartInit({"a/W": KERNEL, "b/W": KERNEL}, rename={"a": "fc", "b": "fc"})
    with pytest.raises(
        RestoreError, match=r"rename= gives two values the name 'fc/W': 'a/W' and 'b/W'. Give each its"
    ):
        init.restore(sess)


def test_ignored_variables_are_neither_restored_nor_listed(sess, caplog):
    values = {"fc/W": KERNEL, "fc/b": np.ones(7, np.float32), "old/Momentum": BIAS}
    SmartInit(values, ignore=["fc/b", ".*/Momentum", "st.p"], allow=[]).restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
    np.testing.assert_array_equal(value(sess, "fc/b"), np.zeros(3))
    assert not caplog.records
    # The whole name counts, not a part of it.
    with pytest.raises(RestoreError, match="of another shape or type: fc/b"):
        SmartInit(values, ignore=["b"]).restore(sess)


@pytest.mark.parametrize(
    ("allow", "refused"),
    [([], True), (["missing"], True), (["unused"], True), (["missing", "unused"], False)],
    ids=str,
)
def test_differences_may_be_refused(sess, allow, refused):
    init = SmartInit({"fc/W": KERNEL, "more": BIAS}, allow=allow)
    if not refused:
        init.restore(sess)
        return
    with pytest.raises(RestoreError) as caught:
        init.restore(sess)
    assert str(caught.value) == (
        "the given dictionary does not match this graph:\n"
        "  only in the graph: fc/b\n"
        "  only in the graph: step\n"
        "  only in the restored values: more\n"
        'Use rename= or ignore= so that they match, or allow them: allow=["missing", "unused"].'
    )
    np.testing.assert_array_equal(value(sess, "fc/W"), np.zeros((2, 3)))


def test_an_exact_restore_may_allow_differences(sess, caplog):
    values = {"fc/W": KERNEL, "more": BIAS}
    assert list(match_variables(sess.graph, values, "it", allow=["missing", "unused"])) == ["fc/W"]
    assert "it does not match this graph (allowed by resume_allow):\n  only in the graph: fc/b" in caplog.text


def test_objects_of_tensorflow(sess, tmp_path, caplog):
    """`tf.train.Checkpoint` writes paths through objects; only the names of the variables count."""
    kernel, bias = tf.Variable(KERNEL, name="fc/W"), tf.Variable(BIAS, name="fc/b")
    twins = [tf.Variable(np.int64(number), name="twin") for number in (3, 4)]
    objects = tf.compat.v2.train.Checkpoint(net={"k": kernel, "b": bias}, one=twins[0], two=twins[1])
    path = objects.write(str(tmp_path / "objects"))
    for source in (objects, path):
        SmartInit({"fc/W": np.zeros((2, 3), np.float32), "fc/b": np.zeros(3, np.float32)}).restore(sess)
        SmartInit(source, rename={"two": "step", "one": "other"}).restore(sess)
        np.testing.assert_array_equal(value(sess, "fc/W"), KERNEL)
        np.testing.assert_array_equal(value(sess, "fc/b"), BIAS)
        assert value(sess, "step") == 4
    assert "only in the restored values: other" in caplog.text


def test_objects_are_read_when_they_are_passed(sess):
    bias = tf.Variable(BIAS, name="fc/b")
    init = SmartInit(tf.compat.v2.train.Checkpoint(bias=bias))
    bias.assign(2 * BIAS)
    init.restore(sess)
    np.testing.assert_array_equal(value(sess, "fc/b"), BIAS)


def test_objects_inside_a_graph():
    with tf.Graph().as_default():
        objects = tf.train.Checkpoint(v=tf.get_variable("v", [2]))
        with pytest.raises(RestoreError, match=r"have no values inside a graph.*save it and pass the path"):
            SmartInit(objects)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"allow": ["shapes"]}, ValueError, r"allow=\['shapes'\]: expected a list of some of 'missing', 'un"),
        ({"allow": "missing"}, ValueError, "allow='missing': expected a list"),
        ({"ignore": "fc/b"}, TypeError, r"ignore='fc/b': expected a list of regular expressions: \['fc/b'\]"),
        ({"ignore": ["(fc"]}, ValueError, r"ignore: '\(fc' is not a regular expression: missing \)"),
        ({"rename": ["fc"]}, TypeError, r"rename=\['fc'\]: expected a dictionary of names, or a function"),
    ],
    ids=str,
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        SmartInit({}, **options)


@pytest.mark.parametrize("wrong", [3, object, 1.5], ids=repr)
def test_smart_init_of_something_else(wrong):
    with pytest.raises(
        TypeError, match=r"SmartInit takes a path, a dictionary of arrays, a tf.train.Checkpoint or"
    ):
        SmartInit(wrong)


@pytest.mark.parametrize("init", [SaverRestore, SmartInit])
def test_unreadable(sess, tmp_path, init):
    (tmp_path / "note.txt").write_text("no checkpoint")
    for name in ("nothing", "note.txt"):
        with pytest.raises(
            CheckpointError, match=r"cannot be read as a TensorFlow checkpoint.*Expected a prefix"
        ):
            init(tmp_path / name).restore(sess)


def test_a_training_starts_from_it(kit, configure, caplog):
    kept = kit.Weights()
    caplog.set_level(logging.INFO)
    config = configure(
        session_init=SmartInit({"slope": np.float32(3)}), callbacks=[kept], steps_per_epoch=1, max_epoch=1
    )
    SimpleTrainer(config).train()
    assert kept.values["slope"] == 3


def test_a_path_is_not_a_session_init():
    with pytest.raises(ConfigError, match=r"expected a SessionInit, such as SmartInit\(path\)"):
        TrainConfig(session_init="model.npz")


def test_a_custom_session_init(kit, configure):
    class Own(SessionInit):
        def restore(self, sess):
            self.names = [variable.op.name for variable in sess.graph.get_collection("variables")]

    own = Own()
    SimpleTrainer(configure(session_init=own)).train()
    assert "slope" in own.names
