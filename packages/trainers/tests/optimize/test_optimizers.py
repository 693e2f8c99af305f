"""AdamW, LAMB and LARS against the formulas of their papers, computed by NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_trainers.optimize import LAMB, LARS, AdamW

START = {"fc/W": np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]]), "fc/b": np.array([0.0, 0.0])}


def gradients(step):
    rng = np.random.default_rng(step)
    return {name: rng.normal(size=value.shape) for name, value in START.items()}


class Adam:
    """Bias-corrected means of gradients and squares, in float64."""

    def __init__(self, beta1=0.9, beta2=0.999):
        self.betas, self.m, self.v, self.t = (beta1, beta2), 0.0, 0.0, 0

    def means(self, g):
        beta1, beta2 = self.betas
        self.t += 1
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * g**2
        return self.m / (1 - beta1**self.t), self.v / (1 - beta2**self.t)


def adamw(name, adam, w, g):
    m, v = adam.means(g)
    decay = 0.0 if name == "fc/b" else 0.3
    return w - 0.1 * (m / (np.sqrt(v) + 0.01) + decay * w)


def lamb(name, adam, w, g):
    m, v = adam.means(g)
    u = m / (np.sqrt(v) + 0.01)
    if name == "fc/b":
        return w - 0.1 * u
    u = u + 0.3 * w
    return w - 0.1 * np.linalg.norm(w) / np.linalg.norm(u) * u


def lars(name, state, w, g):
    if name != "fc/b":
        local = 0.02 * np.linalg.norm(w) / (np.linalg.norm(g) + 0.3 * np.linalg.norm(w))
        g = local * (g + 0.3 * w)
    state.m = 0.9 * state.m + 0.1 * g
    return w - state.m


CASES = {
    "AdamW": (lambda: AdamW(0.1, 0.3, epsilon=0.01, exclude=["/b$"]), adamw),
    "LAMB": (lambda: LAMB(0.1, 0.3, epsilon=0.01, exclude=["/b$"]), lamb),
    "LARS": (lambda: LARS(0.1, weight_decay=0.3, trust=0.02, exclude=["/b$"]), lars),
}


def expected(rule, steps):
    values, states = dict(START), {name: Adam() for name in START}
    for step in range(steps):
        grads = gradients(step)
        values = {name: rule(name, states[name], w, grads[name]) for name, w in values.items()}
    return values


def make_variables(**options):
    return [
        tf.get_variable(name, dtype=tf.float32, initializer=tf.constant(value, tf.float32), **options)
        for name, value in START.items()
    ]


def train(optimizer, steps, sparse=False, **options):
    with tf.Graph().as_default(), tf.Session() as sess:
        variables = make_variables(**options)
        feeds = [tf.placeholder(tf.float32, variable.shape) for variable in variables]
        grads = [in_parts(feed) for feed in feeds] if sparse else feeds
        update = optimizer.apply_gradients(zip(grads, variables))
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            sess.run(update, dict(zip(feeds, gradients(step).values())))
        return snapshot_variables(sess, tf.global_variables())


def in_parts(gradient):
    """The same gradient, each row in two parts that add up to it, the rows in another order."""
    rows = int(gradient.shape[0])
    order = list(range(rows))[::-1] + list(range(rows))
    return tf.IndexedSlices(
        tf.concat([gradient[::-1] * 0.25, gradient * 0.75], 0), tf.constant(order), tf.shape(gradient)
    )


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES)
def test_ten_steps_are_those_of_the_paper(case, sparse, use_resource):
    make, rule = CASES[case]
    values = train(make(), 10, sparse, use_resource=use_resource)
    for name, value in expected(rule, 10).items():
        np.testing.assert_allclose(values[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("AdamW", {"fc/W/AdamW", "fc/W/AdamW_1", "fc/b/AdamW", "fc/b/AdamW_1", "beta1_power", "beta2_power"}),
        ("LAMB", {"fc/W/LAMB", "fc/W/LAMB_1", "fc/b/LAMB", "fc/b/LAMB_1", "beta1_power", "beta2_power"}),
        ("LARS", {"fc/W/LARS", "fc/b/LARS"}),
    ],
)
def test_their_slots_are_global_variables_and_so_in_checkpoints(case, names):
    assert set(train(CASES[case][0](), 1)) - set(START) == names


@pytest.mark.parametrize("make", [LAMB, LARS, AdamW])
def test_a_learning_rate_may_be_a_variable(make):
    with tf.Graph().as_default(), tf.Session() as sess:
        rate = tf.get_variable("rate", [], initializer=tf.zeros_initializer(), trainable=False)
        (weight, _) = make_variables()
        update = make(rate).apply_gradients([(tf.ones_like(weight), weight)])
        sess.run(tf.global_variables_initializer())
        sess.run(update)
        np.testing.assert_array_equal(sess.run(weight), START["fc/W"].astype(np.float32))
        sess.run(rate.assign(0.5))
        sess.run(update)
        assert not np.allclose(sess.run(weight), START["fc/W"])


@pytest.mark.parametrize("make", [LAMB, lambda: LARS(0.1)], ids=["LAMB", "LARS"])
def test_norms_of_zero_give_finite_steps(make):
    with tf.Graph().as_default(), tf.Session() as sess:
        zero, still = (
            tf.get_variable("zero", initializer=tf.zeros([2])),
            tf.get_variable("still", initializer=[1.0]),
        )
        update = make().apply_gradients([(tf.ones([2]), zero), (tf.zeros([1]), still)])
        sess.run(tf.global_variables_initializer())
        sess.run(update)
        moved, stayed = sess.run([zero, still])
    assert np.isfinite(moved).all() and (moved < 0).all()
    assert np.isfinite(stayed).all()


def test_decay_waits_for_the_gradient():
    # Decaying first would change the weight under the computation of its own gradient.
    with tf.Graph().as_default(), tf.Session() as sess:
        weight = tf.get_variable("w", initializer=tf.ones([300, 300]))
        busy = given = tf.placeholder(tf.float32, [300, 300])
        for _ in range(10):
            busy = tf.matmul(busy, given)
        # An op with an effect, since TensorFlow does not wait for one without.
        kept = tf.get_variable("kept", initializer=tf.ones([300, 300]), trainable=False)
        with tf.control_dependencies([kept.assign(busy, read_value=False)]):
            gradient = weight.read_value()
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False)
        look = seen.assign(tf.reduce_mean(gradient))
        update = AdamW(1.0, weight_decay=0.5).apply_gradients([(gradient * 0, weight)])
        sess.run(tf.global_variables_initializer())
        for step in range(5):
            sess.run([update, look], {given: np.eye(300, dtype=np.float32)})
            np.testing.assert_allclose(sess.run(seen), 0.5**step, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: AdamW(-1.0), ValueError, r"AdamW\(learning_rate=-1.0\): expected a number of at least 0"),
        (lambda: AdamW(weight_decay="x"), TypeError, r"AdamW\(weight_decay='x'\): expected a number"),
        (lambda: LAMB(epsilon=float("nan")), ValueError, r"LAMB\(epsilon=nan\): expected a number"),
        (lambda: LARS(0.1, trust=0), ValueError, r"LARS\(trust=0\): expected a number above 0"),
        (lambda: LARS(True), TypeError, r"LARS\(learning_rate=True\)"),
        (lambda: LARS(0.1, exclude="/b"), TypeError, r"LARS\(exclude='/b'\): expected a list such as"),
        (lambda: AdamW(exclude=["("]), ValueError, r"'\(' is not a regular expression"),
        (lambda: LAMB(exclude=[3]), TypeError, r"takes a regular expression, received 3 of type int"),
    ],
)
def test_invalid_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
