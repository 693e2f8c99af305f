"""Computing in 16 bits on variables of 32."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, Conv2D, FullyConnected, GlobalAvgPooling, TowerContext, l2_regularizer
from towerpack_trainers import OfflinePredictor, PredictConfig, SimpleTrainer, SmartInit
from towerpack_trainers.optimize import mixed_precision
from towerpack_trainers.testing import FinalVariables

HALVES = [tf.bfloat16, tf.float16]


def network(image):
    hidden = Conv2D("conv0", image, 4, 3, activation=tf.nn.relu, kernel_regularizer=l2_regularizer(0.1))
    return FullyConnected("fc", GlobalAvgPooling("gap", BatchNorm("bn", hidden)), 2)


@pytest.mark.parametrize("dtype", HALVES)
def test_variables_are_float32_and_layers_compute_in_16_bits(dtype):
    with tf.Graph().as_default() as graph:
        image = tf.placeholder(dtype, [None, 8, 8, 1])
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


def brighter(kit, dtype):
    class Images(kit.Net):
        """Says which half of an image is brighter; computed in `dtype`."""

        def inputs(self):
            return [
                tf.TensorSpec([None, 8, 8, 1], tf.float32, "image"),
                tf.TensorSpec([None], tf.int32, "label"),
            ]

        def build_graph(self, image, label):
            with mixed_precision(dtype) if dtype is not None else tf.name_scope(None):
                image = image if dtype is None else tf.cast(image, dtype)
                hidden = Conv2D("conv0", image, 8, 4, strides=4, activation=tf.nn.relu)
                logits = FullyConnected("fc", BatchNorm("bn", hidden), 2)
            logits = tf.identity(tf.cast(logits, tf.float32), name="logits")
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(loss, name="cost")

    return Images()


def images(batches, size, seed=0):
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(batches, size, 8, 8, 1)).astype(np.float32)
    return [[x, (x[:, :, 4:].sum((1, 2, 3)) > x[:, :, :4].sum((1, 2, 3))).astype(np.int32)] for x in xs]


@pytest.mark.slow
def test_training_in_bfloat16_comes_close_and_its_files_fit_a_float32_model(kit, configure):
    data, (pixels, truth) = images(40, 32), images(1, 400, seed=9)[0]
    accuracy = {}
    for trained in (None, tf.bfloat16):
        kept = FinalVariables()
        model = brighter(kit, trained)
        SimpleTrainer(configure(model=model, dataflow=data, callbacks=[kept], max_epoch=3)).train()
        used = tf.bfloat16 if trained is None else None  # the other one reads its files
        predict = OfflinePredictor(
            PredictConfig(
                model=brighter(kit, used),
                session_init=SmartInit(kept.values),
                input_names=["image"],
                output_names=["logits"],
            )
        )
        accuracy[trained] = np.mean(np.argmax(predict(pixels)[0], 1) == truth)
    assert min(accuracy.values()) > 0.9, accuracy
    assert max(accuracy.values()) - min(accuracy.values()) < 0.05, accuracy


@pytest.mark.parametrize("dtype", [tf.float32, tf.int32, "half-ish", None, 3.5])
def test_other_types_are_refused(dtype):
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match=r"mixed_precision\(.*\): expected tf.bfloat16 or tf.float16"),
        mixed_precision(dtype),
    ):
        raise AssertionError("not reached")
