"""The effect of processors on dense, sparse and missing gradients."""

import logging

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_callbacks import MOVING_SUMMARIES
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.optimize import (
    CheckGradient,
    FilterNoneGrad,
    GlobalNormClip,
    GradientProcessor,
    MapGradient,
    PrintGradient,
    ScaleGradient,
    SummaryGradient,
    apply_grad_processors,
)
from towerpack_trainers.testing import FinalVariables

ROWS, DIM = 4, 2
DENSE = np.array([3.0, -4.0, 0.0], np.float32)
PARTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
INDICES = np.array([2, 0, 2])
SPARSE = np.array([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0], [0.0, 0.0]], np.float32)  # row 2 is the sum of two


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.fixture
def grads(sess):
    """A dense gradient, a sparse one with a row that occurs twice, and a missing one."""
    names = {"conv0/W": [3], "embed/W": [ROWS, DIM], "unused/b": []}
    dense, table, unused = (tf.get_variable(name, shape) for name, shape in names.items())
    sparse = tf.IndexedSlices(tf.constant(PARTS), tf.constant(INDICES), tf.constant([ROWS, DIM]))
    return [(tf.constant(DENSE), dense), (sparse, table), (None, unused)]


def values(sess, pairs):
    """Gradients by variable, as dense arrays."""
    found = {}
    for gradient, variable in pairs:
        if isinstance(gradient, tf.IndexedSlices):
            gradient = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, ROWS)
        found[variable.op.name] = None if gradient is None else sess.run(gradient)
    return found


def check(sess, pairs, **expected):
    found = values(sess, pairs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("bound", [1.0, 5.0, 1000.0])
def test_the_common_norm_is_clipped_with_repeated_rows_summed(sess, grads, bound):
    norm = np.sqrt((DENSE**2).sum() + (SPARSE**2).sum())
    scale = min(1.0, bound / norm)
    clipped = GlobalNormClip(bound).process(grads)
    check(sess, clipped, **{"conv0/W": DENSE * scale, "embed/W": SPARSE * scale, "unused/b": None})


def test_a_norm_that_is_not_finite_is_not_hidden(sess, grads):
    grads[0] = (tf.constant([np.inf, 0.0, 0.0]), grads[0][1])
    clipped = values(sess, GlobalNormClip(1.0).process(grads))
    assert np.isnan(clipped["conv0/W"]).all() and np.isnan(clipped["embed/W"]).any()


def test_a_function_is_applied_to_matching_whole_names(sess, grads):
    mapped = MapGradient(lambda g: g * 2, "conv./W").process(grads)
    check(sess, mapped, **{"conv0/W": DENSE * 2, "embed/W": SPARSE, "unused/b": None})
    assert (
        values(sess, MapGradient(lambda g: g * 2, "onv0/W").process(grads))["conv0/W"].tolist()
        == DENSE.tolist()
    )


def test_a_function_may_take_the_variable_and_may_drop_it(sess, grads):
    seen = []

    def keep(gradient, variable):
        seen.append(variable.op.name)
        return None if variable.op.name == "conv0/W" else gradient

    check(sess, MapGradient(keep).process(grads), **{"embed/W": SPARSE, "unused/b": None})
    assert seen == ["conv0/W", "embed/W"]


def test_a_function_sees_each_sparse_row_once(sess, grads):
    def clip(gradient):
        return tf.IndexedSlices(tf.minimum(gradient.values, 7.0), gradient.indices, gradient.dense_shape)

    mapped = MapGradient(clip, "embed/.*").process(grads)
    check(sess, mapped, **{"conv0/W": DENSE, "embed/W": np.minimum(SPARSE, 7.0), "unused/b": None})


def test_an_expression_without_a_match_is_reported(grads, caplog):
    MapGradient(lambda g: g, "conv9/.*").process(grads)
    assert "MapGradient('conv9/.*') matches no variable." in caplog.text


def test_the_prefix_of_a_towers_own_copy_does_not_count(sess):
    copy = tf.get_variable("tower1/fc/W", [2])
    (pair,) = ScaleGradient(("fc/W", 3.0)).process([(tf.ones([2]), copy)])
    assert sess.run(pair[0]).tolist() == [3.0, 3.0]


def test_the_first_rule_that_matches_scales(sess, grads, caplog):
    caplog.set_level(logging.INFO)
    scaled = ScaleGradient([("embed/.*", 0.5), (".*", 3.0)]).process(grads)
    check(sess, scaled, **{"conv0/W": DENSE * 3, "embed/W": SPARSE / 2, "unused/b": None})
    assert "the gradient of embed/W counts 0.5 times" in caplog.text


def test_variables_scaled_by_0_are_not_trained(sess, grads):
    check(sess, ScaleGradient(("conv0/.*", 0)).process(grads), **{"embed/W": SPARSE, "unused/b": None})


def test_missing_gradients_are_dropped_with_a_warning(sess, grads, caplog):
    check(sess, FilterNoneGrad().process(grads), **{"conv0/W": DENSE, "embed/W": SPARSE})
    assert "FilterNoneGrad: no gradient for unused/b." in caplog.text


def test_finite_gradients_pass_the_check(sess, grads):
    check(sess, CheckGradient().process(grads), **{"conv0/W": DENSE, "embed/W": SPARSE, "unused/b": None})


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 1])
def test_the_check_names_the_variable(sess, grads, bad, place):
    gradient, variable = grads[place]
    worse = gradient * bad if place == 0 else tf.IndexedSlices(gradient.values * bad, gradient.indices)
    checked, _ = CheckGradient().process([(worse, variable)])[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"the gradient of {variable.op.name}"):
        sess.run(checked if place == 0 else checked.values)


def test_gradients_are_recorded_under_their_variables_names(sess, grads):
    check(sess, SummaryGradient().process(grads), **{"conv0/W": DENSE, "embed/W": SPARSE, "unused/b": None})
    rms = {tensor.op.name: sess.run(tensor) for tensor in tf.get_collection(MOVING_SUMMARIES)}
    assert rms.keys() == {"conv0/W-grad/rms", "embed/W-grad/rms"}
    for name, dense in (("conv0/W", DENSE), ("embed/W", SPARSE)):
        np.testing.assert_allclose(rms[f"{name}-grad/rms"], np.sqrt((dense**2).mean()), rtol=1e-6)
    summary = tf.Summary.FromString(sess.run(tf.summary.merge_all()))
    assert [value.tag for value in summary.value] == ["conv0/W-grad/histogram", "embed/W-grad/histogram"]
    assert summary.value[1].histo.num == 4  # two rows of two, each once


def test_one_summary_serves_two_graphs_and_the_first_of_two_towers():
    recorder = SummaryGradient(".*/W")
    for _ in range(2):
        with tf.Graph().as_default():
            for name in ("fc/W", "tower1/fc/W", "fc/b"):
                recorder.process([(tf.ones([2]), tf.get_variable(name, [2]))])
            assert [tensor.op.name for tensor in tf.get_collection(MOVING_SUMMARIES)] == ["fc/W-grad/rms"]


def test_summaries_may_go_elsewhere(sess, grads):
    SummaryGradient(collections=["mine"]).process(grads)
    assert len(tf.get_collection("mine")) == 2
    assert not tf.get_collection(tf.GraphKeys.SUMMARIES)


def test_gradients_are_printed_at_each_run(sess, grads, capfd):
    printed = PrintGradient().process(grads)
    capfd.readouterr()
    check(sess, printed, **{"conv0/W": DENSE, "embed/W": SPARSE, "unused/b": None})
    err = capfd.readouterr().err
    assert "conv0/W-grad: [3 -4 0]" in err
    assert "embed/W-grad: rows [2 0 2]" in err


class Recording(GradientProcessor):
    """Records the order in which processors run."""

    def __init__(self, order, name):
        self._order, self._name = order, name

    def _process(self, grads):
        self._order.append(self._name)
        return grads


def test_an_optimizer_applies_processed_gradients(sess, grads):
    order = []
    processors = [
        Recording(order, "a"),
        ScaleGradient(("embed/W", 0)),
        Recording(order, "b"),
        MapGradient(tf.sign),
    ]
    optimizer = apply_grad_processors(tf.train.MomentumOptimizer(0.5, 0.9), processors)
    step = tf.train.get_or_create_global_step()
    update = optimizer.apply_gradients(iter(grads), global_step=step, name="update")
    assert (order, update.name) == (["a", "b"], "update")
    sess.run(tf.global_variables_initializer())
    before = sess.run([variable for _, variable in grads])
    sess.run(update)
    after = sess.run([variable for _, variable in grads])
    np.testing.assert_allclose(after[0], before[0] - 0.5 * np.sign(DENSE))
    assert sess.run(step) == 1
    for old, new in zip(before[1:], after[1:]):
        np.testing.assert_array_equal(old, new)
    slot = optimizer.get_slot(grads[0][1], "momentum")
    assert slot.op.name == "conv0/W/Momentum"
    assert optimizer.get_slot_names() == ["momentum"]
    assert [variable.op.name for variable in optimizer.variables()] == ["conv0/W/Momentum"]


def test_no_gradient_left_to_apply(grads):
    optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(1.0), [ScaleGradient((".*", 0))])
    with pytest.raises(ValueError, match=r"No gradient is left to apply after ScaleGradient"):
        optimizer.apply_gradients(grads)


def test_in_a_training(kit, configure):
    # Line's gradient is huge at first; with a norm of 0.1 and a rate of 0.05, 10 steps can go no further.
    optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.05), [GlobalNormClip(0.1)])
    SimpleTrainer(configure(optimizer=optimizer, callbacks=[kept := FinalVariables()])).train()
    np.testing.assert_allclose(kept.values["slope"], 10 * 0.05 * 0.1, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: GlobalNormClip(0),
            ValueError,
            r"GlobalNormClip\(global_norm=0\): expected a number above 0",
        ),
        (lambda: MapGradient(3), TypeError, r"MapGradient takes a function, received 3 of type int"),
        (
            lambda: MapGradient(lambda a, b, c: a),
            TypeError,
            r"func must take a gradient, or a gradient and a",
        ),
        (lambda: MapGradient(tf.sign, "("), ValueError, r"MapGradient: '\(' is not a regular expression"),
        (lambda: ScaleGradient({".*": 1}), TypeError, r"ScaleGradient received .*expected a pair such as"),
        (
            lambda: ScaleGradient([(".*", "2")]),
            TypeError,
            r"ScaleGradient received .*expected a pair such as",
        ),
        (lambda: SummaryGradient(7), TypeError, r"SummaryGradient takes a regular expression, received 7"),
        (lambda: GlobalNormClip(1.0).process(7), TypeError, r"GlobalNormClip.process: expected a list of"),
        (lambda: Wrong().process([]), TypeError, r"Wrong._process: expected a list of .*received None"),
        (
            lambda: apply_grad_processors(tf.train.AdamOptimizer(), GlobalNormClip(1.0)),
            TypeError,
            r"expected a list of GradientProcessor objects, such as \[GlobalNormClip",
        ),
        (
            lambda: apply_grad_processors(tf2.keras.optimizers.Adam(), []),
            TypeError,
            r"Keras optimizers do not train a graph of this kind; use tf.train.AdamOptimizer instead",
        ),
        (
            lambda: apply_grad_processors(tf2.keras.optimizers.Lamb(), []),
            TypeError,
            r"use towerpack_trainers.LAMB instead",
        ),
        (
            lambda: apply_grad_processors("adam", []),
            TypeError,
            r"wraps a tf.train.Optimizer .*received 'adam'",
        ),
    ],
)
def test_invalid_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


class Wrong(GradientProcessor):
    """Forgets to return anything."""

    def _process(self, grads):
        grads.clear()
