"""Tensors exchanged in few flat ones: nothing is lost, split or reordered."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.distributed.exchange import exchange_packed

TYPES = (tf.float32, tf.int64)


def exchange(tensors, limit):
    """The sent tensors, and the received ones: the doubles."""
    sent = []

    def double(flat):
        sent.extend(flat)
        return [tensor * 2 for tensor in flat]

    return sent, exchange_packed(tensors, double, limit)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), st.integers(0, 20)), min_size=1, max_size=15),
    st.integers(1, 30),
)
def test_each_tensor_is_in_one_bucket_of_its_type(kinds, limit):
    with tf.Graph().as_default(), tf.Session() as sess:
        tensors = [tf.fill([size], tf.cast(place, dtype)) for place, (dtype, size) in enumerate(kinds)]
        sent, received = exchange(tensors, limit)
        buckets, doubles = sess.run([sent, received])
    assert len(doubles) == len(kinds)
    for place, (double, (dtype, size)) in enumerate(zip(doubles, kinds)):
        assert double.dtype == dtype.as_numpy_dtype
        np.testing.assert_array_equal(double, np.full(size, 2 * place))
    for dtype in TYPES:
        places = [bucket for bucket in buckets if bucket.dtype == dtype.as_numpy_dtype]
        expected = [place for place, (other, size) in enumerate(kinds) if other == dtype for _ in range(size)]
        assert sorted(expected) == sorted(int(number) for bucket in places for number in bucket)
    for bucket in buckets:
        assert bucket.ndim == 1
        assert bucket.tolist() == sorted(bucket.tolist())
        assert bucket.size <= limit or len(set(bucket.tolist())) == 1


def test_the_first_tensor_is_first():
    with tf.Graph().as_default(), tf.Session() as sess:
        sent, _ = exchange([tf.fill([size], float(size)) for size in (1, 100, 100)], 50)
        assert sess.run(sent[0])[0] == 1


@pytest.mark.parametrize(
    ("limit", "sizes"),
    # Every second tensor has integers; one bucket of each dtype is filled at a time.
    [(1, [6, 1, 5, 4, 0, 2]), (7, [6, 7, 5]), (1000, [11, 7])],
)
def test_tensors_are_restored(limit, sizes):
    shapes = [(2, 3), (), (5,), (1, 1, 4), (0,), (2,)]
    with tf.Graph().as_default(), tf.Session() as sess:
        tensors = [
            tf.reshape(tf.range(math.prod(shape)), shape)
            if k % 2
            else tf.random.stateless_uniform(shape, [k, 1])
            for k, shape in enumerate(shapes)
        ]
        sent, received = exchange(tensors, limit)
        before, after = sess.run([tensors, received])
    assert len(after) == len(shapes)
    for one, other in zip(before, after):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one * 2 == other).all()
    assert [bucket.shape.as_list() for bucket in sent] == [[size] for size in sizes]
