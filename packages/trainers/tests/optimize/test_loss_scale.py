"""Scaling the cost gives true gradients, and an overflow changes nothing."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver
from towerpack_layers import BatchNorm, FullyConnected
from towerpack_trainers import SimpleTrainer, SyncMultiGPUTrainer
from towerpack_trainers.optimize import (
    CheckGradient,
    DynamicLossScaleOptimizer,
    GlobalNormClip,
    apply_grad_processors,
    mixed_precision,
)
from towerpack_trainers.testing import FinalVariables

NAME = "DynamicLossScaleOptimizer"


class Run:
    """v is trained with momentum on cost = given * v; the gradient is the fed value."""

    def __init__(self, sess, **options):
        self.sess = sess
        self.given = tf.placeholder(tf.float32, [])
        self.variable = tf.get_variable("v", initializer=0.0)
        optimizer = DynamicLossScaleOptimizer(tf.train.MomentumOptimizer(1.0, 0.5), **options)
        (pair,) = optimizer.compute_gradients(self.variable * self.given)
        self.gradient = pair[0]
        self.update = optimizer.apply_gradients([pair], name="update")
        self.slot = optimizer.get_slot(self.variable, "momentum")
        self.optimizer = optimizer
        sess.run(tf.global_variables_initializer())

    def step(self, gradient):
        self.sess.run(self.update, {self.given: gradient})
        state = {variable.op.name: self.sess.run(variable) for variable in self.optimizer.variables()}
        return state[f"{NAME}/scale"], state[f"{NAME}/good_steps"], state[f"{NAME}/skipped_steps"]


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_scale_counters_variable_and_slot_at_each_step(sess):
    run = Run(sess, initial_scale=8.0, growth_interval=2)
    value = momentum = 0.0
    scale, good, skipped = 8.0, 0, 0
    for gradient in (1.0, 2.0, np.inf, 3.0, np.nan, 4.0, 5.0, 6.0, 7.0, -np.inf, np.nan):
        if np.isfinite(gradient):
            momentum = 0.5 * momentum + gradient
            value -= momentum
            good += 1
            if good == 2:
                scale, good = scale * 2, 0
        else:
            scale, good, skipped = scale / 2, 0, skipped + 1
        assert run.step(gradient) == (scale, good, skipped)
        np.testing.assert_allclose(sess.run([run.variable, run.slot]), [value, momentum], rtol=1e-6)


def test_the_scale_does_not_fall_below_1_nor_grow_for_ever(sess):
    run = Run(sess, initial_scale=2.0, growth_interval=1, factor=2.0**60)
    assert run.step(np.nan)[0] == 1.0
    assert [run.step(0.0)[0] for _ in range(3)] == [2.0**60, 2.0**100, 2.0**100]


def test_gradients_are_unscaled(sess):
    run = Run(sess)
    assert sess.run(run.gradient, {run.given: 3.0}) == 3.0
    assert run.update.name == "update"


def test_an_overflow_of_the_scaled_cost_alone_is_an_overflow(sess):
    # 1e4 fits into float16; times 2**15 it does not.
    with mixed_precision(tf.float16):
        weight = tf.get_variable("w", [], tf.float16, tf.ones_initializer())
    optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1e-4))
    update = optimizer.apply_gradients(optimizer.compute_gradients(tf.cast(weight * 1e4, tf.float32)))
    (master,) = tf.trainable_variables()
    sess.run(tf.global_variables_initializer())
    values = []
    for _ in range(15):
        sess.run(update)
        values.append(sess.run(master))
    skipped = sess.run(optimizer.variables()[2])
    assert 0 < skipped < 15
    assert values[: skipped + 1] == [1.0] * skipped + [values[skipped]]
    np.testing.assert_allclose(values[skipped], 0.0, atol=1e-2)


@pytest.mark.parametrize(("scaling", "expected"), [(False, 0.0), (True, 1e-8)])
def test_small_gradients_do_not_vanish_in_float16(sess, scaling, expected):
    with mixed_precision(tf.float16):
        weight = tf.get_variable("w", [], tf.float16, tf.ones_initializer())
    cost = tf.cast(weight, tf.float32) * 1e-8
    plain = tf.train.GradientDescentOptimizer(1.0)
    optimizer = DynamicLossScaleOptimizer(plain) if scaling else plain
    ((gradient, _),) = optimizer.compute_gradients(cost)
    sess.run(tf.global_variables_initializer())
    np.testing.assert_allclose(sess.run(gradient), expected, rtol=1e-3)


def test_sparse_gradients(sess):
    table = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
    given = tf.placeholder(tf.float32, [])
    optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0))
    pairs = optimizer.compute_gradients(tf.reduce_sum(tf.gather(table, [1, 1, 3])) * given)
    assert isinstance(pairs[0][0], tf.IndexedSlices)
    update = optimizer.apply_gradients(pairs)
    sess.run(tf.global_variables_initializer())
    for value in (1.0, np.inf, 2.0):
        sess.run(update, {given: value})
    np.testing.assert_allclose(sess.run(table)[:, 0], [0, -6, 0, -3])


@pytest.mark.parametrize("outside", [True, False])
def test_processors_see_true_gradients_on_either_side(sess, outside):
    variable, given = tf.get_variable("v", initializer=0.0), tf.placeholder(tf.float32, [])
    plain, clip = tf.train.GradientDescentOptimizer(1.0), [GlobalNormClip(2.0)]
    if outside:
        optimizer = apply_grad_processors(DynamicLossScaleOptimizer(plain), clip)
    else:
        optimizer = DynamicLossScaleOptimizer(apply_grad_processors(plain, [*clip, CheckGradient()]))
    update = optimizer.apply_gradients(optimizer.compute_gradients(variable * given))
    sess.run(tf.global_variables_initializer())
    for value in (5.0, np.inf, 1.0):
        sess.run(update, {given: value})
    assert sess.run(variable) == -3.0


def test_towers_with_separate_variables_have_separate_scales(sess):
    # As replicated training does it: each tower applies the same, averaged gradients to its own copy.
    optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0), 8.0)
    given = tf.placeholder(tf.float32, [])
    copies = [tf.get_variable(name, initializer=0.0) for name in ("v", "tower1/v")]
    updates = []
    for copy in copies:
        pairs = optimizer.compute_gradients(copy * given, [copy])
        updates.append(optimizer.apply_gradients(pairs))
    sess.run(tf.global_variables_initializer())
    for value in (1.0, np.inf, 2.0):
        sess.run(updates, {given: value})
    state = {v.op.name: sess.run(v) for v in optimizer.variables()}
    assert sess.run(copies) == [-3.0, -3.0]
    for name in (NAME, f"{NAME}_1"):
        assert [state[f"{name}/{key}"] for key in ("scale", "good_steps", "skipped_steps")] == [4.0, 1, 1]


def half_net(kit, dtype):
    class Half(kit.Net):
        """`Net`, computed in 16 bits."""

        def build_graph(self, image, label):
            with mixed_precision(dtype):
                hidden = FullyConnected("fc0", tf.cast(image, dtype), 8)
                logits = FullyConnected("fc1", tf.nn.relu(BatchNorm("bn", hidden)), 2)
            logits = tf.cast(logits, tf.float32)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(loss, name="cost")

    return Half()


def scaling():
    return DynamicLossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2.0**26, growth_interval=100)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("towers", [1, 2])
def test_training_in_float16_comes_close_to_float32(kit, configure, towers):
    def make(config):
        return SimpleTrainer(config) if towers == 1 else SyncMultiGPUTrainer(config, ["/cpu:0", "/cpu:1"])

    kept = []
    for model, optimizer in ((kit.Net(), None), (half_net(kit, tf.float16), scaling())):
        kept.append(FinalVariables())
        data = kit.net_data(40, 16)
        make(
            configure(
                model=model, dataflow=data, optimizer=optimizer, callbacks=[kept[-1]], steps_per_epoch=100
            )
        ).train()
    single, half = (weights.values for weights in kept)
    skipped = half[f"{NAME}/skipped_steps"]
    assert 0 < skipped < 20  # 2**26 was too much to begin with
    assert {name for name in half if not name.startswith(NAME)} == single.keys()
    assert {value.dtype for value in half.values()} == {np.dtype("float32"), np.dtype("int64")}
    accuracy = [np.mean(predict(values, data) == labels(data)) for values in (single, half)]
    assert accuracy[0] > 0.95 and accuracy[1] > accuracy[0] - 0.03


def predict(values, data):
    images = np.concatenate([image for image, _ in data])
    hidden = images @ values["fc0/W"] + values["fc0/b"]
    scale = values["bn/gamma"] / np.sqrt(values["bn/variance/EMA"] + 1e-5)
    hidden = np.maximum((hidden - values["bn/mean/EMA"]) * scale + values["bn/beta"], 0)
    return np.argmax(hidden @ values["fc1/W"] + values["fc1/b"], 1)


def labels(data):
    return np.concatenate([label for _, label in data])


@pytest.mark.slow
def test_a_resumed_run_keeps_its_scale(kit, configure):
    def make(*callbacks, **changes):
        return SimpleTrainer(
            configure(
                model=half_net(kit, tf.float16),
                dataflow=kit.net_flow(),
                optimizer=scaling(),
                callbacks=list(callbacks),
                **changes,
            )
        )

    make(whole := FinalVariables(), max_epoch=4, log_dir=None).train()
    make(ModelSaver(), max_epoch=2).train()
    make(resumed := FinalVariables(), max_epoch=4, resume="auto").train()
    assert resumed.values.keys() == whole.values.keys()
    for name, value in whole.values.items():
        np.testing.assert_array_equal(resumed.values[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_scale": 0.5}, r"initial_scale=0.5\): expected a number of at least 1"),
        ({"growth_interval": 0}, r"growth_interval=0\): expected a whole number of at least 1"),
        ({"factor": 1}, r"factor=1\): expected a number above 1"),
    ],
)
def test_invalid_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        DynamicLossScaleOptimizer(tf.train.AdamOptimizer(), **options)


def test_variables_of_16_bits_are_refused(sess):
    weight = tf.get_variable("w", [], tf.float16)
    with pytest.raises(TypeError, match=r"variable 'w' is float16; .*with mixed_precision\(tf.float16\)"):
        DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0)).compute_gradients(weight * 2)


def test_reference_variables_are_refused(sess):
    weight = tf.get_variable("w", [], use_resource=False)
    optimizer = DynamicLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0))
    with pytest.raises(ValueError, match=r"only for resource variables; 'w' is not one"):
        optimizer.apply_gradients([(tf.ones([]), weight)])
