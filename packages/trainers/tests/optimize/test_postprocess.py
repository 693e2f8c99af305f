"""Ops that follow an update, in the same step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import SimpleTrainer
from towerpack_trainers.optimize import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    VariableAssignmentOptimizer,
)
from towerpack_trainers.testing import FinalVariables


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_it_reads_updated_values(sess):
    weight = tf.get_variable("w", initializer=tf.ones([300, 300]))
    copy = tf.get_variable("copy", initializer=tf.zeros([300, 300]), trainable=False)
    step = tf.train.get_or_create_global_step()
    optimizer = PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), lambda v: tf.assign(copy, v))
    gradient = tf.ones([300, 300]) * weight[0, 0]
    update = optimizer.apply_gradients([(gradient, weight)], global_step=step, name="update")
    assert update.name == "update"
    sess.run(tf.global_variables_initializer())
    for _ in range(5):
        sess.run(weight.assign_add(tf.ones([300, 300])))
        sess.run(update)
        np.testing.assert_array_equal(*sess.run([copy, weight]))
    assert sess.run(step) == 5


def test_all_variables_are_updated_before_it_runs(sess):
    variables = [tf.get_variable(name, initializer=0.0) for name in "ab"]
    total = tf.get_variable("total", initializer=0.0, trainable=False)

    def add_up(variable):
        return total.assign_add(sum(v.read_value() for v in variables)) if variable is variables[0] else None

    optimizer = PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), add_up)
    update = optimizer.apply_gradients([(tf.constant(-1.0), v) for v in variables])
    sess.run(tf.global_variables_initializer())
    for _ in range(20):
        sess.run(update)
    assert sess.run(total) == sum(2 * k for k in range(1, 21))


def test_it_runs_only_for_variables_with_a_gradient(sess):
    seen = []

    def note(variable):
        seen.append(variable.op.name)

    used, unused = tf.get_variable("used", initializer=0.0), tf.get_variable("unused", initializer=0.0)
    PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), note).apply_gradients(
        [(tf.ones([]), used), (None, unused)]
    )
    assert seen == ["used"]


def test_inside_of_an_accumulation_it_runs_with_each_update(sess):
    weight, count = (tf.get_variable(name, initializer=0.0) for name in ("w", "count"))
    counting = PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), lambda _: count.assign_add(1.0))
    update = AccumGradOptimizer(counting, 3).apply_gradients([(tf.ones([]), weight)])
    sess.run(tf.global_variables_initializer())
    for _ in range(7):
        sess.run(update)
    assert sess.run([weight, count]) == [-2.0, 2.0]


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
def test_variables_get_new_values(sess, use_resource):
    names = ("clipped", "left")
    clipped, left = (tf.get_variable(name, initializer=0.0, use_resource=use_resource) for name in names)

    def clip(variable):
        return tf.clip_by_value(variable, -0.5, 0.5) if variable is clipped else None

    optimizer = VariableAssignmentOptimizer(tf.train.MomentumOptimizer(0.2, 0.9), clip)
    update = optimizer.apply_gradients([(tf.ones([]), clipped), (tf.ones([]), left)])
    sess.run(tf.global_variables_initializer())
    value = other = momentum = 0.0
    for _ in range(6):
        sess.run(update)
        momentum = 0.9 * momentum + 1
        value, other = max(value - 0.2 * momentum, -0.5), other - 0.2 * momentum
        np.testing.assert_allclose(sess.run([clipped, left]), [value, other], rtol=1e-6)
    assert optimizer.get_slot(clipped, "momentum").op.name == "clipped/Momentum"


def test_in_a_training(kit, configure):
    optimizer = VariableAssignmentOptimizer(
        tf.train.GradientDescentOptimizer(0.05), lambda variable: tf.minimum(variable, 0.25)
    )
    SimpleTrainer(configure(optimizer=optimizer, callbacks=[kept := FinalVariables()])).train()
    assert kept.values["slope"] == 0.25


def test_invalid_arguments(sess):
    plain = tf.train.GradientDescentOptimizer(1.0)
    with pytest.raises(TypeError, match=r"PostProcessOptimizer takes a function, received 3"):
        PostProcessOptimizer(plain, 3)
    with pytest.raises(TypeError, match=r"VariableAssignmentOptimizer takes a function, received None"):
        VariableAssignmentOptimizer(plain, None)
    pairs = [(tf.ones([]), tf.get_variable("v", initializer=0.0))]
    with pytest.raises(TypeError, match=r"func returned 5 for 'v'; expected an op or None"):
        PostProcessOptimizer(plain, lambda _: 5).apply_gradients(pairs)
    with pytest.raises(ValueError, match=r"received no gradient of any variable"):
        PostProcessOptimizer(plain, lambda _: None).apply_gradients([(None, pairs[0][1])])
