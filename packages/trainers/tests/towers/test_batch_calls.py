"""Several batches in one session call have the results of one call for each, to the last bit."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.towers import _batch_calls
from towerpack_trainers.towers._batch_calls import BatchCalls, BatchCopies
from towerpack_trainers.towers._predictor import compile_outputs


def variable(name, shape):
    return tf.get_variable(
        name, shape, use_resource=True, initializer=tf.random_normal_initializer(seed=len(name))
    )


def dense(x):
    hidden = tf.nn.relu(tf.matmul(x, variable("first", [6, 5])) + variable("bias", [5]))
    return [tf.reduce_mean(tf.matmul(hidden, variable("second", [5, 3]))), tf.argmax(hidden, 1)]


def convolution(x):
    image = tf.reshape(x, [-1, 2, 3, 1])
    filtered = tf.nn.conv2d(image, variable("kernel", [2, 2, 1, 4]), 1, "SAME")
    mean, scale = variable("mean", [4]), tf.exp(variable("scale", [4]))
    normal = tf.nn.fused_batch_norm(filtered, scale, mean, mean, scale, is_training=False)[0]
    return [normal, tf.reduce_sum(normal)]


def ragged(x):
    """Outputs whose shape depends on the values, text, an input, a variable's value, and one tensor twice."""
    chosen = tf.boolean_mask(x, x[:, 0] > 0)
    return [chosen, tf.strings.as_string(x), x, variable("kept", [2]).read_value(), chosen]


def loop(x):
    return [tf.while_loop(lambda n, _: n < 3, lambda n, total: (n + 1, total + tf.tanh(total)), (0, x))[1]]


def checked(x):
    rows = tf.cast(tf.abs(x[:, 0]), tf.int32) % 4
    return [tf.gather(variable("table", [4, 2]), rows), tf.debugging.check_numerics(x, "not a number")]


PASSES = [dense, convolution, ragged, loop, checked]


def random(x):
    return [x + tf.random.uniform(tf.shape(x), seed=3)]


def dropped(x):
    return [tf.nn.dropout(x, rate=0.5)]


def counted(x):
    counter = tf.get_variable("counter", [], use_resource=True, initializer=tf.zeros_initializer())
    with tf.control_dependencies([counter.assign_add(1.0)]):
        return [x + counter.read_value()]


def asserted(x):
    with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
        return [tf.identity(x)]


def python(x):
    return [tf.py_func(lambda value: value, [x], tf.float32)]


def another_input(x):
    return [x + tf.placeholder(tf.float32, [])]


def large(x):
    for _ in range(101):
        x = tf.tanh(x)
    return [x]


def unchanged(x):
    return [x]


def batches_of(sizes):
    draw = np.random.default_rng(0)
    return [[draw.normal(size=(size, 6)).astype(np.float32)] for size in sizes]


def run(make, batches, together=True):
    """Computes batches by calls for as many as possible; returns the results and these numbers."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, [None, 6], "x")
        outputs = make(x)
        copies = BatchCopies.of([x], outputs, "batch") if together else None
        assert together == (copies is not None)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return all_of(BatchCalls.of(sess, [x], outputs, copies), batches)


def all_of(calls, batches):
    results, counts, done = [], [], 0
    while done < len(batches):
        counts.append(min(calls.most, len(batches) - done))
        results += calls(batches[done : done + counts[-1]])
        done += counts[-1]
    return results, counts


def assert_equal(one, other):
    assert len(one) == len(other)
    for first, second in zip(one, other):
        assert len(first) == len(second)
        for a, b in zip(first, second):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b, strict=True)


@pytest.fixture(autouse=True)
def few_singles(monkeypatch):
    monkeypatch.setattr(_batch_calls, "_SINGLES", 16)


@pytest.fixture
def always_faster(monkeypatch):
    """Several batches in a call are tried, and kept, on a machine of any load."""
    monkeypatch.setattr(_batch_calls, "_LONGEST_PASS", 1e9)
    monkeypatch.setattr(_batch_calls, "_CALLS", 1e9)


@pytest.mark.usefixtures("always_faster")
@pytest.mark.parametrize("make", PASSES, ids=lambda make: make.__name__)
def test_results_are_those_of_single_calls(make):
    batches = batches_of([4] * 30 + [3, 1, 2, 5] * 3 + [4])
    one, _ = run(make, batches, together=False)
    several, counts = run(make, batches)
    assert_equal(several, one)
    assert counts == [1] * 16 + [8, 8, 8, 3]


@pytest.mark.usefixtures("always_faster")
def test_any_sizes_of_batches():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6], "x")
        outputs = dense(x)
        copies = BatchCopies.of([x], outputs, "batch")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            single, calls = compile_outputs(sess, [x], outputs), BatchCalls.of(sess, [x], outputs, copies)

            @settings(max_examples=20, deadline=None)
            @given(sizes=st.lists(st.integers(0, 5), min_size=16, max_size=40))
            def check(sizes):
                batches = batches_of(sizes)
                found = all_of(calls, batches)[0]
                assert_equal(found, [single(*batch) for batch in batches])

            check()
            assert calls.most == BatchCopies.COUNT


@pytest.mark.parametrize(
    "make",
    [random, dropped, counted, asserted, python, another_input, large, unchanged],
    ids=lambda make: make.__name__,
)
def test_a_pass_whose_copies_may_differ_is_not_copied(make):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6], "x")
        outputs = make(x)
        before = len(graph.get_operations())
        assert BatchCopies.of([x], outputs, "batch") is None
        assert len(graph.get_operations()) == before


def test_a_final_graph_is_left_alone():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6], "x")
        outputs = dense(x)
        graph.finalize()
        assert BatchCopies.of([x], outputs, "batch") is None


@pytest.mark.usefixtures("always_faster")
def test_batches_before_a_failing_one_are_given():
    batches = batches_of([4] * 40)
    batches[27][0][:] = np.nan
    expected, _ = run(checked, batches[:27], together=False)
    received = []
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6], "x")
        outputs = checked(x)
        copies = BatchCopies.of([x], outputs, "batch")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            calls = BatchCalls.of(sess, [x], outputs, copies)
            with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
                while len(received) < 40:
                    done = len(received)
                    received.extend(calls(batches[done : done + calls.most]))
                    assert calls.most == (8 if len(received) >= 16 else 1)
    # `extend` keeps those before the error.
    assert_equal(received, expected)


class Single:
    """A function of one batch that takes 0.1 ms in the calling thread."""

    shortest, has_other = 1e-4, True

    def __call__(self, number):
        return [number]


@pytest.mark.parametrize(
    ("seconds", "most"), [(5e-4, 8), (9e-4, 1), (None, 1)], ids=["faster", "slower", "long passes"]
)
def test_the_faster_way_is_kept(monkeypatch, seconds, most):
    now, calls = [0.0], []
    monkeypatch.setattr(_batch_calls.time, "perf_counter", lambda: now[0])
    if seconds is None:
        monkeypatch.setattr(Single, "shortest", 2e-3)

    def make(in_calling_thread):
        assert in_calling_thread

        def together(*numbers):
            # The first calls take longer, and a busy machine lengthens some.
            now[0] += seconds * (1 if len(calls) % 3 else 4)
            calls.append(numbers)
            return list(numbers)

        return together

    several, done = BatchCalls(Single(), make), 0
    while done < 200:
        numbers = list(range(done, done + several.most))
        assert list(several([[number] for number in numbers])) == [[number] for number in numbers]
        done += len(numbers)
    assert several.most == most
    assert len(calls) == {5e-4: 23, 9e-4: 7, None: 0}[seconds]
