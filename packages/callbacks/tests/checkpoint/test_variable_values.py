"""Values of variables go out of a session and into one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from towerpack_callbacks.checkpoint import (
    assign_variables,
    initial_feeds,
    snapshot_variables,
)


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


@pytest.mark.parametrize(
    ("dtype", "value", "kept"),
    [
        (tf.int32, np.int64(2**40 + 5), None),
        (tf.uint8, np.uint16(300), None),
        (tf.uint32, np.int32(-1), None),
        (tf.float16, np.float32(1e10), None),
        (tf.bfloat16, np.float64(1e300), None),
        (tf.int32, np.float32(1.5), None),
        (tf.float32, np.int32(2**24 + 1), None),
        (tf.int32, np.int64(5), 5),
        (tf.bfloat16, np.float32(1.001), 1),
        (tf.float32, np.float64(np.nan), np.nan),
    ],
)
def test_a_type_that_cannot_hold_a_value_is_refused(dtype, value, kept):
    with tf.Graph().as_default(), tf.Session() as sess:
        variable = tf.get_variable("x", [], dtype, initializer=tf.zeros_initializer())
        if kept is not None:
            assign_variables(sess, {"x": value})
            np.testing.assert_array_equal(sess.run(variable).astype(np.float32), kept)
            return
        with pytest.raises(ValueError, match=rf"'x' has type {dtype.name}, which cannot hold"):
            assign_variables(sess, {"x": value})


def test_variables_that_share_an_initial_value_get_their_own():
    with tf.Graph().as_default(), tf.Session() as sess:
        drawn = tf.random_normal([3])
        for name in ("a", "b", "c"):
            tf.Variable(drawn, name=name)
        values = {name: np.full(3, number, np.float32) for number, name in enumerate("abc")}
        assign_variables(sess, values)
        for variable in tf.global_variables():
            np.testing.assert_array_equal(sess.run(variable), values[variable.op.name])


def test_values_that_can_be_fed_during_initialisation():
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
