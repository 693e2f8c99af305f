"""Computing in 16 bits on variables of 32."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    TowerContext,
    l2_regularizer,
    mixed_precision,
    register_layer,
)

HALVES = [tf.bfloat16, tf.float16]


def network(image):
    hidden = Conv2D("conv0", image, 4, 3, activation=tf.nn.relu, kernel_regularizer=l2_regularizer(0.1))
    return FullyConnected("fc", GlobalAvgPooling("gap", BatchNorm("bn", hidden)), 2)


@pytest.mark.parametrize("dtype", HALVES)
def test_variables_are_float32_and_layers_compute_in_16_bits(dtype):
    with tf.Graph().as_default() as graph:
        image = tf.placeholder(tf.float32, [None, 8, 8, 1])
        for name, reuse in (("", None), ("inference", True)):
            with TowerContext(name, is_training=not reuse, reuse=reuse), mixed_precision(dtype):
                assert network(image).dtype == dtype
        assert {
            variable.op.name: variable.dtype.base_dtype for variable in tf.global_variables()
        } == dict.fromkeys(
            ["conv0/W", "conv0/b", "bn/gamma", "bn/beta", "bn/mean/EMA", "bn/variance/EMA", "fc/W", "fc/b"],
            tf.float32,
        )
        for kind in ("Conv2D", "MatMul"):
            assert {op.outputs[0].dtype for op in graph.get_operations() if op.type == kind} == {dtype}
        (decay,) = tf.losses.get_regularization_losses()[:1]
        assert decay.dtype == tf.float32


def test_outside_of_the_block_nothing_changes():
    with tf.Graph().as_default():
        with mixed_precision():
            inside = tf.get_variable("inside", [2], tf.bfloat16)
            same = tf.get_variable("same", [2])
            other = tf.get_variable("other", [2], tf.float16)
        outside = tf.get_variable("outside", [2], tf.bfloat16)
        assert (inside.dtype, same.dtype, other.dtype) == (tf.bfloat16, tf.float32, tf.float16)
        assert outside.dtype == tf.bfloat16
        assert [v.dtype.base_dtype.name for v in tf.global_variables()] == [
            "float32", "float32", "float16", "bfloat16"
        ]  # fmt: skip


def test_values_are_read_rounded_and_gradients_are_not():
    with tf.Graph().as_default(), tf.Session() as sess, mixed_precision(tf.bfloat16):
        third = tf.constant(1 / 3, tf.bfloat16)
        weight = tf.get_variable("w", dtype=tf.bfloat16, initializer=third)
        (master,) = tf.trainable_variables()
        sess.run(tf.global_variables_initializer())
        sess.run(master.assign(1.001))
        assert sess.run([tf.cast(weight, tf.float32), master]) == [1.0, np.float32(1.001)]
        ((gradient, variable),) = tf.train.GradientDescentOptimizer(1.0).compute_gradients(
            tf.cast(weight, tf.float32) * 0.1
        )
        assert variable is master and gradient.dtype == tf.float32


def test_small_steps_add_up_though_each_is_below_16_bits():
    with tf.Graph().as_default(), tf.Session() as sess:
        with mixed_precision(tf.bfloat16):
            weight = tf.get_variable("w", [], tf.bfloat16, tf.ones_initializer())
        step = tf.train.GradientDescentOptimizer(1e-4).minimize(tf.cast(weight, tf.float32))
        sess.run(tf.global_variables_initializer())
        for _ in range(100):
            sess.run(step)
        np.testing.assert_allclose(sess.run(tf.trainable_variables()[0]), 0.99, rtol=1e-4)


def test_an_enclosing_getter_and_scope_stay():
    with tf.Graph().as_default():
        asked = []

        def note(getter, name, *args, **kwargs):
            asked.append((name, kwargs["dtype"]))
            return getter(name, *args, **kwargs)

        with tf.variable_scope("net", custom_getter=note), mixed_precision():
            read = tf.get_variable("w", [], tf.bfloat16)
        assert asked == [("net/w", tf.float32)]
        assert read.dtype == tf.bfloat16


@pytest.mark.parametrize("named", [True, False])
def test_all_tensors_of_a_call_are_cast_and_nothing_else_is(graph, named):
    seen = {}

    @register_layer(use_scope=None)
    def Sees(x, other, variable, index, exact):
        seen.update(x=x, other=other, variable=variable, index=index, exact=exact)
        return tf.identity(x[0])

    single, double = tf.ones([2]), tf.ones([2], tf.float64)
    with mixed_precision():
        variable = tf.get_variable("v", [2])
        Sees(
            *(["sees"] if named else []),
            [single, single],
            other=single,
            variable=variable,
            index=3,
            exact=double,
        )
    assert [part.dtype for part in seen["x"]] == [tf.bfloat16] * 2
    assert seen["other"].dtype == tf.bfloat16
    assert (seen["variable"], seen["index"], seen["exact"]) == (variable, 3, double)


def test_the_blocks_end_ends_the_casts(graph):
    with pytest.raises(RuntimeError), mixed_precision():
        raise RuntimeError
    assert MaxPooling("pool", tf.ones([1, 4, 4, 1]), 2).dtype == tf.float32


@pytest.mark.parametrize("dtype", [tf.float32, tf.int32, "half-ish", None, 3.5])
def test_other_types_are_refused(dtype):
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match=r"mixed_precision\(.*\): expected tf.bfloat16 or tf.float16"),
        mixed_precision(dtype),
    ):
        raise AssertionError("not reached")
