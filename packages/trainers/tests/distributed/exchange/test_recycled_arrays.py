"""Memory of exchanged gradients is reused, but never while it is still visible."""

import gc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.distributed.exchange import RecycledArrays


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_is_reused_after_the_last_view(dtype):
    arrays, dtype = RecycledArrays(), np.dtype(dtype)

    def row():
        return arrays.row([(3, 50), (), (7,)], dtype)

    whole, parts = row()
    assert [part.shape for part in parts] == [(3, 50), (), (7,)]
    assert all(part.dtype == dtype and part.flags.writeable for part in parts)
    assert all(address(part) % 64 == 0 for part in parts)
    begin, corner = address(whole), parts[0][1:].T[:2]
    del whole, parts
    second = row()
    assert address(second[0]) != begin  # a view of the corner still exists
    del corner
    gc.collect()
    assert address(row()[0]) == begin


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=8))
def test_parts_lie_side_by_side(shapes):
    whole, parts = RecycledArrays().row([tuple(shape) for shape in shapes], np.dtype(np.float32))
    whole[:] = -1
    for number, part in enumerate(parts):
        part[...] = number
    assert [part.shape for part in parts] == [tuple(shape) for shape in shapes]
    assert all((part == number).all() for number, part in enumerate(parts))
    assert sum((whole >= 0).tolist()) == sum(part.size for part in parts)


def test_tensorflow_uses_them_without_a_copy_and_held_memory_is_not_reused():
    arrays, addresses = RecycledArrays(), []

    def tenfold(values):
        _, (_, answer) = arrays.row([(3,), values.shape], values.dtype)
        addresses.append(address(answer))
        answer[:] = 10 * values
        return answer

    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.float32, [])
        made = tf.numpy_function(tenfold, [tf.fill([1000], number)], tf.float32)
        held = tf.get_variable("held", [1000])  # a variable may keep the memory that it is assigned
        keep, look = tf.assign(held, tf.ensure_shape(made, [1000])).op, tf.reduce_max(made)
        session.run(keep, {number: 1})
        for value in range(20):
            assert session.run(look, {number: value}) == 10 * value
            assert set(session.run(held)) == {10}
    assert len(set(addresses)) <= 4
