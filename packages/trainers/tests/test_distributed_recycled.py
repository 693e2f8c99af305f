"""Memory of exchanged gradients is used again, and never while anybody sees it."""

import gc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers.distributed._recycled import RecycledArrays


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_comes_back_with_the_last_view(dtype):
    arrays = RecycledArrays()
    model = np.zeros((3, 50), dtype)
    first = arrays.like(model)
    assert (first.shape, first.dtype, first.flags.writeable) == (model.shape, model.dtype, True)
    assert address(first) % 64 == 0
    begin, corner = address(first), first[1:].T[:2]
    del first
    second = arrays.like(model)
    assert address(second) != begin  # the corner is still there
    del corner
    gc.collect()
    assert address(arrays.like(model)) == begin


def test_nothing_is_an_array_too():
    assert RecycledArrays().like(np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_tensorflow_takes_them_as_they_are_and_what_it_holds_stays():
    arrays, addresses = RecycledArrays(), []

    def tenfold(values):
        answer = arrays.like(values)
        addresses.append(address(answer))
        answer[:] = 10 * values
        return answer

    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.float32, [])
        given = tf.numpy_function(tenfold, [tf.fill([1000], number)], tf.float32)
        held = tf.get_variable("held", [1000])  # a variable may keep the memory that it is assigned
        keep, look = tf.assign(held, tf.ensure_shape(given, [1000])).op, tf.reduce_max(given)
        session.run(keep, {number: 1})
        for value in range(20):
            assert session.run(look, {number: value}) == 10 * value
            assert set(session.run(held)) == {10}
    assert len(set(addresses)) <= 4
