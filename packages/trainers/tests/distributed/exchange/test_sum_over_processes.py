"""Sums over processes: their order, the signal of a stopping process, and unsupported tensors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ConfigError
from towerpack_trainers.distributed import Communicator
from towerpack_trainers.distributed.exchange import STOPPED, AverageOverProcesses, SumOverProcesses


class Group:
    is_chief, rank = True, 0

    def __init__(self, size):
        self.size = size


class WithItself(Communicator):
    """All other processes have the values of this one; records the order of exchanges."""

    def __init__(self, size=2, stopping=0.0):
        self.group, self.ran, self.made, self.stopping = Group(size), [], 0, stopping

    def all_reduce(self, tensors):
        self.made += 1
        return [self._pass(tensor, self.made) for tensor in tensors]

    def repeat_all_reduce(self, tensors):
        return [self._pass(tensor, -self.made) for tensor in tensors]

    def broadcast(self, tensors):
        raise NotImplementedError

    def _pass(self, tensor, number):
        def run(value):
            self.ran.append((number, value.tolist()))
            return np.array([self.stopping, *value[1:]], value.dtype) if number == 1 else value

        answer = tf.numpy_function(run, [tensor], tensor.dtype)
        answer.set_shape(tensor.shape)
        return answer


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16], ids=lambda dtype: dtype.name)
def test_a_sum_has_the_shape_and_dtype_of_its_terms(graph, dtype):
    total = SumOverProcesses(WithItself(3))
    sums = [total(tf.constant(value, dtype)) for value in ([[1.0, 2.0]], 4.0, np.zeros([0, 2]))]
    assert [(s.dtype, s.shape.as_list()) for s in sums] == [(dtype, [1, 2]), (dtype, []), (dtype, [0, 2])]
    with tf.Session() as sess:
        first, second, none = sess.run(sums)
    assert (first.tolist(), float(second), none.size) == ([[3.0, 6.0]], 12.0, 0)
    assert total.taken == [f"{dtype.name} [1, 2]", f"{dtype.name} []", f"{dtype.name} [0, 2]"]


def test_exchanges_run_in_the_order_of_their_construction(graph):
    """First those of the model, then those of each objective, independently of other objectives."""
    communicator = WithItself()
    exchange = AverageOverProcesses(communicator)
    ones = tf.ones([1])
    for objective in (None, None, 0, 0, 1):
        exchange.sum(ones, objective)
    variable = tf.get_variable("v", [1])
    [[first, _]] = exchange([(ones, variable)])
    [[second, _]] = exchange([(ones, variable)])
    with tf.Session() as sess:
        for fetch, order in ((first, [1, 2, 3, 4, 6]), (second, [1, 2, 5, 7])):
            communicator.ran.clear()
            sess.run(fetch)
            assert [number for number, _ in communicator.ran] == order


def test_a_stopping_process_takes_part_in_the_first_sum(graph):
    communicator = WithItself()
    exchange = AverageOverProcesses(communicator)
    exchange.sum(tf.ones([2]))
    exchange.sum(tf.ones([2]))
    exchange([(tf.ones([1]), tf.get_variable("v", [1]))])
    with tf.Session() as sess:
        sess.run(exchange.stops[0])
    assert communicator.ran == [(-1, [1.0, 0.0, 0.0])]


def test_no_process_continues_when_another_one_stops(graph):
    communicator = WithItself(stopping=0.5)
    exchange = AverageOverProcesses(communicator)
    exchange.sum(tf.ones([2]))
    exchange.sum(tf.ones([2]))
    [[average, _]] = exchange([(tf.ones([1]), tf.get_variable("v", [1]))])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=STOPPED):
        sess.run(average)
    assert communicator.ran == [(1, [0.0, 1.0, 1.0])]


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (tf.int32, [2], r"received x:0 of shape \(2,\) and type int32"),
        (tf.float32, [None], r"received x:0 of shape \(None,\) and type float32"),
    ],
)
def test_unsupported_tensors(graph, dtype, shape, message):
    with pytest.raises(ConfigError, match=message):
        SumOverProcesses(WithItself())(tf.placeholder(dtype, shape, "x"))


def test_a_single_process_has_no_sum():
    assert AverageOverProcesses(WithItself(1)).sum is None
