"""Gradients in few tensors: nothing is lost, split or reordered."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.replicate import GradientPacker, plan_buckets

sizes = st.lists(st.integers(0, 1000), max_size=40)


@settings(deadline=None)
@given(sizes, st.integers(1, 8))
def test_ranges_cover_everything_in_order(sizes, count):
    buckets = plan_buckets(sizes, count)
    assert [index for bucket in buckets for index in bucket] == list(range(len(sizes)))
    assert min(len(sizes), 1) <= len(buckets) <= count
    assert 0 not in [len(bucket) for bucket in buckets]


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 8))
def test_ranges_are_about_equal(sizes, count):
    """No range exceeds its share by more than its last item."""
    for bucket in plan_buckets(sizes, count):
        assert sum(sizes[index] for index in bucket) <= sum(sizes) / count + 2 * max(sizes)


@pytest.mark.parametrize("count", [0, -1])
def test_no_range_at_all(count):
    with pytest.raises(ValueError, match=rf"plan_buckets\(count={count}\): expected at least 1"):
        plan_buckets([1], count)


shapes = st.lists(
    st.tuples(st.lists(st.integers(0, 3), max_size=3), st.sampled_from([np.float32, np.float16, np.float64])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(shapes, st.integers(1, 4), st.integers(0, 2**31))
def test_packed_tensors_are_restored(kinds, count, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape).astype(dtype) for shape, dtype in kinds]
    with tf.Graph().as_default(), tf.Session() as sess:
        gradients = [tf.constant(array) for array in arrays]
        packer = GradientPacker.like(gradients, count)
        packed = packer.pack(gradients)
        back = packer.unpack(packed)
        types = {dtype for _, dtype in kinds}
        assert len(types) <= len(packed) <= count * len(types)
        assert [tensor.shape.rank for tensor in packed] == [1] * len(packed)
        assert sum(tensor.shape.num_elements() for tensor in packed) == sum(array.size for array in arrays)
        for array, value in zip(arrays, sess.run(back), strict=True):
            np.testing.assert_array_equal(value, array)
            assert value.dtype == array.dtype


def test_an_unknown_shape():
    with tf.Graph().as_default():
        gradients = [tf.ones([2]), tf.placeholder(tf.float32, [None, 2])]
        with pytest.raises(ValueError, match=r"cannot pack gradient 1: its shape \(None, 2\) is unknown"):
            GradientPacker.like(gradients)
